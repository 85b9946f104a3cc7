"""push_with_pygit2.py REPOSITORY URL SOURCE:REF... pushes with libgit2; what a ref's fate is comes out as `REF<tab>WHY`."""

import os
import sys

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


repository = pygit2.Repository(sys.argv[1])
# This version of pygit2 pushes to remotes with a name only.
repository.remotes.create(f"there-{os.getpid()}", sys.argv[2]).push(sys.argv[3:], callbacks=Callbacks())
