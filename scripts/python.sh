#!/bin/bash
# Tests the Python package on the module that `cargo build` made, in an environment of its own:
# style, types, stubs, tests. Ends with 1 if a test fails, with 2 if there is no Python or PyPI to
# run them with.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/target/python
bin=$folder/venv/bin
pins='maturin==1.16.0 mypy==2.4.1 pytest==9.2.0 ruff==0.17.6
aiohttp==3.14.5 astropy==8.0.2 dask[dataframe]==2026.8.0 fsspec==2026.9.0 pandas==3.1.1 pillow==13.0.0 pyarrow==26.0.1'

if ! [ -x "$bin/python" ] || [ "$(cat "$folder/pins" 2>/dev/null)" != "$pins $folder" ]; then
    echo 'python: installing what tests the package (a minute)'
    rm -f "$folder/pins"
    {
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' &&
            python3 -m venv --clear "$folder/venv" &&
            "$bin/pip" -q --disable-pip-version-check install $pins
    } </dev/null || {
        if "$bin/pip" -q --disable-pip-version-check install --dry-run --ignore-installed pip </dev/null; then
            echo "python: PyPI answers, but these could not all be installed: $pins"
            exit 1
        fi
        echo 'python: there is no Python 3.11 or later with venv, or PyPI cannot be reached'
        exit 2
    }
    echo "$pins $folder" >"$folder/pins"
fi

# As `maturin develop` does, without building once more what the workspace has built.
ln -sfn ../../target/debug/lib_nearfirst.so python/nearfirst/_nearfirst.abi3.so
echo "$PWD/python" >"$("$bin/python" -c 'import site; print(site.getsitepackages()[0])')/nearfirst.pth"

code=0
"$bin/ruff" format --check -q python scripts || code=1
"$bin/ruff" check -q python scripts || code=1
"$bin/mypy" || code=1
"$bin/python" -m mypy.stubtest nearfirst --mypy-config-file pyproject.toml \
    --allowlist python/stubtest.txt --ignore-unused-allowlist || code=1
timeout -k 10 300 "$bin/pytest" -q --ignore=python/tests/test_torch.py || code=1

# PyPI has PyTorch with CUDA only, which is 5 GB; Debian has it for its own Python.
system=/usr/bin/python3
torch=$folder/torch
if "$system" -c 'import sys, importlib.util as u; sys.exit(not u.find_spec("torch") or sys.version_info < (3, 11))' 2>/dev/null; then
    if [ "$(cat "$folder/torch-pins" 2>/dev/null)" != "$pins $folder" ]; then
        rm -f "$folder/torch-pins"
        "$system" -m venv --clear --system-site-packages "$torch" </dev/null &&
            "$torch/bin/pip" -q --disable-pip-version-check install \
                $(tr ' ' '\n' <<<"$pins" | grep -E '^(fsspec|pytest)=') </dev/null &&
            echo "$pins $folder" >"$folder/torch-pins"
    fi
    echo "$PWD/python" >"$("$torch/bin/python" -c 'import site; print(site.getsitepackages()[0])')/nearfirst.pth"
    timeout -k 10 300 "$torch/bin/python" -m pytest -q python/tests/test_torch.py || code=1
else
    reason="$system is not of version 3.11 or later, or has no torch (python3-torch)"
    echo "skipped: the data set of PyTorch: $reason"
    [ -z "${NEARFIRST_SKIPPED:-}" ] || printf 'test_torch.py\t%s\n' "$reason" >>"$NEARFIRST_SKIPPED"
    [ "${NEARFIRST_REQUIRE_ALL:-}" != 1 ] || code=1
fi
exit $code
