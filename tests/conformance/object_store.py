"""A command beside an S3 server that compares signatures.

object_store.py ceph|moto COMMAND...: SEMANTIC_TEST_S3 and CLUSTER_STORE name an empty bucket there,
and the keys are where the AWS tools look for them. ceph is a monitor, an object store in RAM and
Ceph's gateway, from Debian's packages ceph-mon, ceph-osd, ceph-common and radosgw; skipped where
they are not installed. moto is a Python program, which answers one request at a time, since it does
not compare and write at once, and which does not compare the bytes of an upload with their
checksum.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "etc/cluster"))
import ceph_in_ram as ceph  # noqa: E402

BUCKET = "memories"
COMMAND_SECONDS = 3600


def serve_moto(port):
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    app = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", port, app, threaded=False)


def start_moto(folder, running):
    """Returns: the port, and the keys of a user whose signatures are compared."""
    import boto3

    port = ceph.free_port()
    # Signatures count once the three requests below have made the user that they are compared for.
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "3"}
    log = open(os.path.join(folder, "output.log"), "wb")
    running.append(subprocess.Popen([sys.executable, __file__, "serve", str(port)],
                                    env=environment, stdout=log, stderr=log))
    ceph.wait_for(port, running[-1])
    iam = boto3.client("iam", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                       aws_access_key_id="x", aws_secret_access_key="x")
    iam.create_user(UserName="conformance")
    policy = '{"Version": "2012-10-17", "Statement": ' \
             '[{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
    iam.put_user_policy(UserName="conformance", PolicyName="all", PolicyDocument=policy)
    key = iam.create_access_key(UserName="conformance")["AccessKey"]
    return port, {"AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                  "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


def make_bucket(port, keys):
    import boto3
    from botocore.config import Config

    boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                 aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
                 aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
                 config=Config(s3={"addressing_style": "path"})).create_bucket(Bucket=BUCKET)


def main():
    server, command = sys.argv[1], sys.argv[2:]
    if server == "ceph" and (missing := ceph.missing_programs()):
        print(f"skipped: {', '.join(missing)} not installed")
        sys.exit(77)
    running = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            if server == "ceph":
                port, keys = ceph.start_ceph(folder, running), ceph.KEYS
            else:
                port, keys = start_moto(folder, running)
            make_bucket(port, keys)
            url = f"s3+http://127.0.0.1:{port}/{BUCKET}"
            environment = {**os.environ, **keys, "SEMANTIC_TEST_S3": url, "CLUSTER_STORE": url}
            subprocess.run(command, env=environment, check=True, timeout=COMMAND_SECONDS)
        except subprocess.SubprocessError:
            with open(os.path.join(folder, "output.log"), errors="replace") as log:
                print(log.read()[-3000:])
            raise
        finally:
            for each in reversed(running):
                each.kill()
                each.wait()


if sys.argv[1] == "serve":
    serve_moto(int(sys.argv[2]))
else:
    main()
