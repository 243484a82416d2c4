"""Requests signed by AWS credentials: a server on loopback computes each signature again with botocore."""

import asyncio
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError, MissingKey
from gradebook.tasks.judging.settings import aws_signature
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.keys import read_keys
from gradebook.tasks.judging.transport.http_client import BoundedFileClient, BoundedSession

ID, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session-token-0123456789"


class _Checking(BaseHTTPRequestHandler):
    """Answers with whether the signature is right, and with the headers that came."""

    def do_POST(self) -> None:
        auth, awsrequest = pytest.importorskip("botocore.auth"), pytest.importorskip("botocore.awsrequest")
        credentials = pytest.importorskip("botocore.credentials").Credentials(ID, SECRET, TOKEN)
        content = self.rfile.read(int(self.headers["Content-Length"]))
        kind, _, parts = self.headers["Authorization"].partition(" ")
        named = dict(part.strip().split("=", 1) for part in parts.split(","))
        _, _, region, service, _ = named["Credential"].split("/")
        signed = {name: self.headers[name] for name in named["SignedHeaders"].split(";")}
        url = f"http://{self.headers['Host']}{self.path}"
        request = awsrequest.AWSRequest("POST", url, headers=signed, data=content)
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        signer = auth.SigV4Auth(credentials, service, region)
        expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        is_right = (kind, named["Signature"]) == ("AWS4-HMAC-SHA256", expected)
        seen = {"is_right": is_right, "scope": [region, service], "headers": dict(self.headers)}
        body = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


class _Refusing(BaseHTTPRequestHandler):
    """Refuses each role."""

    def do_POST(self) -> None:
        body = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>told-secret</Message></Error></ErrorResponse>"
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    values = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN}
    for name, value in (values | {"AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws_signature, "_found", [])


@pytest.fixture
def server():
    with HTTPServer(("127.0.0.1", 0), _Checking) as checking:
        Thread(target=checking.serve_forever, args=[0.01], daemon=True).start()
        yield checking
        checking.shutdown()


def settings_of(server: Any, **settings: Any) -> JudgeSettings:
    return JudgeSettings(model="m", key="aws", base_url=f"http://127.0.0.1:{server.server_port}/v1", **settings)


def test_each_request_is_signed_and_carries_no_secret(server, monkeypatch):
    pytest.importorskip("botocore")
    settings = settings_of(server, query={"b": "2 x", "a": "ä"})
    with pytest.raises(JudgeSettingsError, match="aws@127.0.0.1"):
        read_keys(settings, {})
    monkeypatch.setenv("GRADEBOOK_ALLOW_KEYS", f"aws@127.0.0.1:{server.server_port}")
    (masked,) = read_keys(settings, os.environ)
    assert masked == TOKEN

    async def post() -> bytes:
        session = BoundedSession(settings, masked, 1)
        try:
            return (await session.post("/chat/completions", json.dumps({"text": "ä"}).encode()))[2]
        finally:
            await session.close()

    with BoundedFileClient(settings, masked) as client:
        of_file = client.post(settings.base_url + "/files", files={"file": b"x"}).json()
    for seen in (json.loads(asyncio.run(post())), of_file):
        assert (seen["is_right"], seen["scope"]) == (True, ["eu-west-1", "bedrock-mantle"])
        assert SECRET not in json.dumps(seen)
        assert "Bearer" not in json.dumps(seen)
        assert seen["headers"]["X-Amz-Security-Token"] == TOKEN


@pytest.mark.parametrize(
    ("url", "scope"),
    [
        ("https://bedrock-mantle.us-east-2.api.aws/v1/x", "us-east-2/bedrock-mantle"),
        ("https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/x", "us-west-2/bedrock"),
    ],
)
def test_region_and_service_of_a_signature_come_from_the_host(url, scope):
    pytest.importorskip("botocore")
    assert f"/{scope}/aws4_request" in aws_signature.signed_headers("POST", url, b"{}")["Authorization"]


def test_without_the_package_or_credentials_one_sentence_says_what_to_do(monkeypatch):
    settings = JudgeSettings(model="m", key="aws", base_url="https://bedrock-mantle.us-east-1.api.aws/v1")
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    with pytest.raises(MissingKey, match=r"found no package botocore.*\.\[bedrock\]"):
        read_keys(settings, {})
    monkeypatch.undo()
    pytest.importorskip("botocore")
    for name, value in {"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(aws_signature, "_found", [])
    with pytest.raises(MissingKey, match="found no AWS credentials"):
        read_keys(settings, {})


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_refused_role_and_a_missing_token_file_are_named_without_what_the_service_said(
    monkeypatch, tmp_path, is_refused
):
    pytest.importorskip("botocore")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    token = tmp_path / "token"
    if is_refused:
        token.write_text("web-token", encoding="utf-8")
    settings = JudgeSettings(model="m", key="aws", base_url="https://bedrock-mantle.us-east-1.api.aws/v1")
    with HTTPServer(("127.0.0.1", 0), _Refusing) as refusing:
        Thread(target=refusing.serve_forever, args=[0.01], daemon=True).start()
        values = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r", "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
        values |= {"AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{refusing.server_port}", "HOME": str(tmp_path)}
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(EndpointUnavailable) as fault:
            read_keys(settings, {})
        refusing.shutdown()
    cause = "AssumeRoleWithWebIdentity was refused: AccessDenied" if is_refused else f"{token}: No such file"
    assert cause in str(fault.value)
    assert "aws sts get-caller-identity" in str(fault.value)
    assert "told-secret" not in str(fault.value)
    assert "web-token" not in str(fault.value)
