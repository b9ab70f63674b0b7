"""The gRPC face as @grpc/grpc-js sees it: runs grpc_js/main.js, which speaks TAP. Arguments choose by part of name."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import harness  # noqa: E402

SERVER = os.environ.get("HARBINGER_RPC_SERVER", str(harness.BUILD / "tests/lib/rpc_server"))


def main():
    assert pathlib.Path(SERVER).exists(), f"{SERVER} is not built"
    folder = harness.node_modules("tests/integration/grpc_js", "grpc_js")
    environment = {**os.environ, "HARBINGER_RPC_SERVER": SERVER, "HARBINGER_PROTO": str(harness.ROOT / "src/rpc")}
    sys.stderr.flush()
    os.execve("/usr/bin/node", ["node", str(folder / "main.js"), *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
