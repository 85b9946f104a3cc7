"""push_with_dulwich.py REPOSITORY URL ID:REF... pushes with dulwich; what a ref's fate is comes out as `REF<tab>WHY`."""

import os
import sys

from dulwich import client as clients
from dulwich.objects import ZERO_SHA
from dulwich.repo import Repo

repository = Repo(sys.argv[1])
url = sys.argv[2]
if url.startswith("/"):
    # What a shell would do for it; dulwich's own local client calls no receive-pack.
    client, path = clients.SubprocessGitClient(), url
else:
    client, path = clients.get_transport_and_path(url)
wanted = {}
for spec in sys.argv[3:]:
    source, name = spec.split(":")
    wanted[name.encode()] = source.encode() or ZERO_SHA


def progress(text):
    for line in text.decode().splitlines():
        print("remote:", line.strip())


result = client.send_pack(path, lambda refs: wanted, repository.generate_pack_data, progress=progress)
for name, why in result.ref_status.items():
    print(name.decode(), why or "ok", sep="\t")
