"""dulwich: see README.md. It pushes ids rather than names: each SOURCE is an id."""

import sys

from dulwich import client as clients
from dulwich import porcelain
from dulwich.objects import ZERO_SHA
from dulwich.repo import Repo

action, url = sys.argv[1:3]
if url.startswith("/"):
    # Like a shell: dulwich's own local client starts no program.
    client, path = clients.SubprocessGitClient(), url
else:
    client, path = clients.get_transport_and_path(url)


def progress(text):
    for line in text.decode().splitlines():
        print("remote:", line.strip())


if action == "list":
    for name, oid in client.get_refs(path).items():
        print(oid.decode(), name.decode(), sep="\t")
elif action == "clone":
    porcelain.clone(url, sys.argv[3], bare=True)
elif action == "fetch":
    repository = Repo(sys.argv[3])
    for name, oid in client.fetch(path, repository).refs.items():
        if name.startswith(b"refs/heads/"):
            repository.refs[b"refs/from/" + name[len(b"refs/heads/"):]] = oid
else:
    repository = Repo(sys.argv[3])
    wanted = {}
    for spec in sys.argv[4:]:
        source, name = spec.split(":")
        wanted[name.encode()] = source.encode() or ZERO_SHA
    result = client.send_pack(path, lambda refs: wanted, repository.generate_pack_data, progress=progress)
    for name, why in result.ref_status.items():
        print(name.decode(), why or "ok", sep="\t")
