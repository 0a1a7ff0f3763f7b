# SPDX-License-Identifier: Apache-2.0
"""Ceph on one machine, in RAM, for tries and tests: a monitor, an object store and Ceph's gateway,
from Debian's packages ceph-mon, ceph-osd, ceph-common and radosgw. What was put there is gone with
it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid

KEYS = {"AWS_ACCESS_KEY_ID": "conformance", "AWS_SECRET_ACCESS_KEY": "conformance-secret"}
PROGRAMS = ["ceph-mon", "ceph-osd", "ceph", "radosgw", "radosgw-admin", "monmaptool"]
PATIENCE_SECONDS = 200

CEPH_CONF = """[global]
fsid = {fsid}
mon host = v1:127.0.0.1:{monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = none
auth service required = none
auth client required = none
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}
run dir = {folder}
admin socket = {folder}/$name.$pid.asok
log file = {folder}/$name.log
osd objectstore = memstore
memstore device bytes = 1073741824
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
rgw frontends = beast endpoint=127.0.0.1:{gateway}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port, process):
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            sys.exit(f"the server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server does not listen")


def missing_programs():
    return [each for each in PROGRAMS if not shutil.which(each)]


def start_ceph(folder, running):
    """Fills `folder`, adds the processes to `running`. Returns: the gateway's port."""
    monitor, gateway, fsid = free_port(), free_port(), str(uuid.uuid4())
    conf = os.path.join(folder, "ceph.conf")
    with open(conf, "w") as file:
        file.write(CEPH_CONF.format(folder=folder, fsid=fsid, monitor=monitor, gateway=gateway))
    os.mkdir(os.path.join(folder, "osd"))
    log = open(os.path.join(folder, "output.log"), "wb")

    def call(*command):
        subprocess.run(command, check=True, stdout=log, stderr=log, timeout=PATIENCE_SECONDS)

    def start(*command):
        running.append(subprocess.Popen(command, stdout=log, stderr=log))
        return running[-1]

    monmap = os.path.join(folder, "monmap")
    call("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"v1:127.0.0.1:{monitor}", monmap)
    call("ceph-mon", "-c", conf, "--mkfs", "-i", "a", "--monmap", monmap)
    wait_for(monitor, start("ceph-mon", "-c", conf, "-f", "-i", "a"))
    osd = str(uuid.uuid4())
    call("ceph", "-c", conf, "osd", "new", osd)
    call("ceph-osd", "-c", conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
    call("ceph", "-c", conf, "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=one")
    # Without --no-mon-config this OSD may speak to the monitor before it has heard the cluster's
    # fsid, is told "wrong fsid", and ends.
    start("ceph-osd", "-c", conf, "-f", "-i", "0", "--no-mon-config")
    call("radosgw-admin", "-c", conf, "user", "create", "--uid=conformance", "--display-name=c",
         f"--access-key={KEYS['AWS_ACCESS_KEY_ID']}", f"--secret={KEYS['AWS_SECRET_ACCESS_KEY']}")
    wait_for(gateway, start("radosgw", "-c", conf, "-f", "-n", "client.rgw"))
    return gateway
