#!/bin/bash
# Tests the Python package on the module that `cargo build` made, in an environment of its own:
# style, types, stubs, tests. Ends with 1 if a test fails, with 2 if there is no Python or PyPI to
# run them with.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/target/python
bin=$folder/venv/bin
pins='maturin==1.16.0 mypy==2.4.1 pytest==9.2.0 ruff==0.17.6
fsspec==2026.9.0'

if ! [ -x "$bin/python" ] || [ "$(cat "$folder/pins" 2>/dev/null)" != "$pins $folder" ]; then
    echo 'python: installing what tests the package (half a minute)'
    rm -f "$folder/pins"
    {
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' &&
            python3 -m venv --clear "$folder/venv" &&
            "$bin/pip" -q --disable-pip-version-check install $pins
    } </dev/null || {
        echo 'python: there is no Python 3.11 or later with venv, or PyPI cannot be reached'
        exit 2
    }
    echo "$pins $folder" >"$folder/pins"
fi

# As `maturin develop` does, without building once more what the workspace has built.
ln -sfn ../../target/debug/lib_nearfirst.so python/nearfirst/_nearfirst.abi3.so
echo "$PWD/python" >"$("$bin/python" -c 'import site; print(site.getsitepackages()[0])')/nearfirst.pth"

code=0
"$bin/ruff" format --check -q python || code=1
"$bin/ruff" check -q python || code=1
"$bin/mypy" || code=1
"$bin/python" -m mypy.stubtest nearfirst --mypy-config-file pyproject.toml \
    --allowlist python/stubtest.txt --ignore-unused-allowlist || code=1
timeout 600 "$bin/pytest" -q || code=1
exit $code
