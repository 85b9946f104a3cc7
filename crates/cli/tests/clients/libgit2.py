"""libgit2, through pygit2: see README.md."""

import os
import sys
import tempfile

import pygit2


class Callbacks(pygit2.RemoteCallbacks):
    def push_update_reference(self, refname, message):
        print(refname, message or "ok", sep="\t")

    def sideband_progress(self, string):
        print("remote:", string.strip())

    def credentials(self, url, username_from_url, allowed_types):
        key = os.environ["SSH_KEY"]
        return pygit2.Keypair(username_from_url, key + ".pub", key, "")

    def certificate_check(self, certificate, valid, host):
        return True


def remote(folder, url):
    # This version of pygit2 lists, fetches and pushes through remotes with a name only.
    return pygit2.Repository(folder).remotes.create(f"there-{os.getpid()}", url)


action, url = sys.argv[1:3]
if action == "list":
    with tempfile.TemporaryDirectory() as folder:
        pygit2.init_repository(folder, bare=True)
        for ref in remote(folder, url).ls_remotes(callbacks=Callbacks()):
            print(ref["oid"], ref["name"], sep="\t")
elif action == "clone":
    pygit2.clone_repository(url, sys.argv[3], bare=True, callbacks=Callbacks())
elif action == "fetch":
    remote(sys.argv[3], url).fetch(["+refs/heads/*:refs/from/*"], callbacks=Callbacks())
else:
    remote(sys.argv[3], url).push(sys.argv[4:], callbacks=Callbacks())
