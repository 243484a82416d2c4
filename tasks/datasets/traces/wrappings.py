"""OpenTelemetry's spans out of the wrappings of Tempo, Jaeger, Phoenix and the console exporter, as OTLP has them."""

from collections.abc import Iterator, Mapping
from typing import Any

from gradebook.tasks.datasets.traces.fields import entries_of, first_of, object_of, objects_of

_MOST_LEVELS = 20  # of attributes that are nested
_VALUES = ("value", "parameters", "arguments", "metadata", "schema")  # last parts of names whose values stay objects
_TRACE_ID, _SPAN_ID = ("trace_id", "traceId"), ("span_id", "spanId")
_ERRORS = (True, "true", "ERROR")


def holds_spans(document: Mapping[str, Any]) -> bool:
    """Whether an object is one of OTLP's, or a wrapping of its spans."""
    batches = objects_of(document.get("batches"))[:1]
    if isinstance(document.get("resourceSpans"), list) or any("resource" in batch for batch in batches):
        return True
    inner = _inner(document)
    return (inner is not None and holds_spans(inner)) or any(map(_is_trace_or_span, [document, *_listed(document)[:1]]))


def spans_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Spans, each with its resource as `resource`, and the reason for each entry that is none."""
    resources = first_of(document, ("resourceSpans", "batches"))
    if resources is not None or not holds_spans(document):
        name = "batches" if "batches" in document else "resourceSpans"
        for resource in entries_of(name, resources):
            yield from [resource] if isinstance(resource, str) else _of_resource(resource)
    elif (inner := _inner(document)) is not None:
        yield from spans_of(inner)
    else:
        for entry in [document] if _is_trace_or_span(document) else entries_of("data", document.get("data")):
            if isinstance(entry, str):
                yield entry
            else:
                yield from _of_jaeger(entry) if "spans" in entry else [_alone(entry)]


def _inner(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Object of OTLP in the answers of the second version of Tempo's API and of the third of Jaeger's."""
    held = (object_of(document.get(name)) for name in ("trace", "result"))
    return next((each for each in held if "resourceSpans" in each or "batches" in each), None)


def _listed(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return objects_of(document.get("data"))


def _is_trace_or_span(entry: Mapping[str, Any]) -> bool:
    """Whether an object is a trace of Jaeger, or one span: of Phoenix, of the console exporter, or alone as in OTLP."""
    ids = [first_of(object_of(entry.get("context")) or entry, names) for names in (_TRACE_ID, _SPAN_ID)]
    is_jaeger = isinstance(entry.get("spans"), list) and "processes" in entry
    is_span = None not in ids and isinstance(entry.get("attributes"), dict | list) and "name" in entry
    return is_jaeger or is_span


def _of_resource(resource: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    about = object_of(resource.get("resource")).get("attributes")
    name = "scopeSpans" if "scopeSpans" in resource else "instrumentationLibrarySpans"
    for scope in entries_of("scopeSpans", resource.get(name)):
        if isinstance(scope, str):
            yield scope
            continue
        for span in entries_of("spans", scope.get("spans")):
            yield span if isinstance(span, str) else span | {"resource": about}


def _of_jaeger(trace: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Spans of a trace of Jaeger: its times are microseconds, its tags and logs are attributes and events."""
    processes = object_of(trace.get("processes"))
    for span in entries_of("spans", trace.get("spans")):
        if isinstance(span, str):
            yield span
            continue
        begin, duration = span.get("startTime"), span.get("duration")
        tags = _tags(span.get("tags"))
        process = object_of(processes.get(str(span.get("processID"))))
        logs = [_tags(log.get("fields")) for log in objects_of(span.get("logs"))]
        parents = [each for each in objects_of(span.get("references")) if each.get("refType") != "FOLLOWS_FROM"]
        failed = tags.get("error") in _ERRORS or tags.get("otel.status_code") in _ERRORS
        yield {
            "traceId": span.get("traceID"),
            "spanId": span.get("spanID"),
            "parentSpanId": (parents[0] if parents else {}).get("spanID"),
            "name": span.get("operationName"),
            "startTimeUnixNano": _nanoseconds(begin),
            "endTimeUnixNano": _nanoseconds(begin + duration if type(begin) is type(duration) is int else None),
            "attributes": tags,
            "events": [{"name": first_of(fields, ("event", "name")), "attributes": fields} for fields in logs],
            "status": {"code": 2 if failed else 0, "message": tags.get("otel.status_description")},
            "resource": _tags(process.get("tags")) | {"service.name": process.get("serviceName")},
        }


def _nanoseconds(microseconds: Any) -> Any:
    """Nanoseconds of whole microseconds; other values as they are, to be named where spans are read."""
    return microseconds * 1_000 if type(microseconds) is int else microseconds


def _tags(listed: Any) -> dict[str, Any]:
    tags = ((tag.get("key"), tag.get("value")) for tag in objects_of(listed))
    return {key: value for key, value in tags if isinstance(key, str) and key and value is not None}


def _alone(span: Mapping[str, Any]) -> dict[str, Any]:
    """A span that is no part of another object; its attributes are listed as in OTLP, or one object, flat or nested."""
    context, status, kind = object_of(span.get("context")) or span, object_of(span.get("status")), span.get("span_kind")
    code, attributes = first_of({**span, **status}, ("status_code", "code")), span.get("attributes")
    if isinstance(attributes, dict):
        attributes = ({"openinference.span.kind": kind} if kind else {}) | _flat(attributes)
    return {
        "traceId": first_of(context, _TRACE_ID),
        "spanId": first_of(context, _SPAN_ID),
        "parentSpanId": first_of(span, ("parent_id", "parent_span_id", "parentSpanId", "parentId")),
        "name": span.get("name"),
        "startTimeUnixNano": first_of(span, ("start_time", "startTimeUnixNano", "start_time_unix_nano", "startTime")),
        "endTimeUnixNano": first_of(span, ("end_time", "endTimeUnixNano", "end_time_unix_nano", "endTime")),
        "attributes": attributes,
        "events": span.get("events"),
        "status": {
            "code": 2 if code in (2, "ERROR", "STATUS_CODE_ERROR") else 0,
            "message": first_of(status, ("description", "message")) or span.get("status_message"),
        },
        "resource": object_of(span.get("resource")).get("attributes"),
    }


def _flat(given: Any) -> dict[str, Any]:
    """Attributes with the names of nested ones joined by dots, and the places of lists among them."""
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [(str(name), value, 0) for name, value in object_of(given).items()]
    while waiting:
        name, value, level = waiting.pop()
        inner: Any = ()
        if level < _MOST_LEVELS and not name.endswith(_VALUES):
            is_list = isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
            inner = value.items() if isinstance(value, dict) else enumerate(value) if is_list else ()
        if inner:
            waiting += [(f"{name}.{key}", each, level + 1) for key, each in inner]
        elif value is not None:
            flat[name] = value
    return flat
