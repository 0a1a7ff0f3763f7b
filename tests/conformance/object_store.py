# SPDX-License-Identifier: Apache-2.0
"""A command beside an S3 server that compares signatures.

object_store.py ceph|moto|ceph-tls|moto-tls COMMAND...: SEMANTIC_TEST_S3 and CLUSTER_STORE name an
empty bucket there, and the keys are where the AWS tools look for them. ceph is a monitor, an object
store in RAM and Ceph's gateway, from Debian's packages ceph-mon, ceph-osd, ceph-common and radosgw;
skipped where they are not installed. moto is a Python program, which answers one request at a time,
since it does not compare and write at once, and which does not compare the bytes of an upload with
their checksum. With -tls connections end in front of it, and AWS_CA_BUNDLE names whom to trust.
"""

import asyncio
import contextlib
import os
import pathlib
import ssl
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


async def end_tls(port, behind, certificate):
    """Passes on what comes over TLS, as it is."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def pass_on(source, to):
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await source.read(1 << 16):
                to.write(data)
                await to.drain()
        to.close()

    async def take(client, reply):
        server, request = await asyncio.open_connection("127.0.0.1", behind)
        await asyncio.gather(pass_on(client, request), pass_on(server, reply))

    server = await asyncio.start_server(take, "127.0.0.1", port, ssl=context)
    await server.serve_forever()


def start_tls(folder, running, behind):
    """Returns: the port, and what names the certificate to clients."""
    port = ceph.free_port()
    certificate = os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                    "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", certificate, "-out", certificate + ".public"],
                   check=True, capture_output=True)
    with open(certificate, "a") as both, open(certificate + ".public") as public:
        both.write(public.read())
    running.append(subprocess.Popen([sys.executable, __file__, "end-tls", str(port), str(behind),
                                     certificate]))
    ceph.wait_for(port, running[-1])
    return port, {"AWS_CA_BUNDLE": certificate + ".public"}


def make_bucket(port, keys):
    import boto3
    from botocore.config import Config

    boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                 aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
                 aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
                 config=Config(s3={"addressing_style": "path"})).create_bucket(Bucket=BUCKET)


def main():
    server, command = sys.argv[1], sys.argv[2:]
    kind, _, tls = server.partition("-")
    if kind == "ceph" and (missing := ceph.missing_programs()):
        print(f"skipped: {', '.join(missing)} not installed")
        sys.exit(77)
    running = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            if kind == "ceph":
                port, keys = ceph.start_ceph(folder, running), ceph.KEYS
            else:
                port, keys = start_moto(folder, running)
            make_bucket(port, keys)
            scheme = "s3+http"
            if tls:
                port, authority = start_tls(folder, running, port)
                scheme, keys = "s3", {**keys, **authority}
            url = f"{scheme}://127.0.0.1:{port}/{BUCKET}"
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
elif sys.argv[1] == "end-tls":
    asyncio.run(end_tls(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
else:
    main()
