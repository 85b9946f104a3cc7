// isomorphic-git: see README.md one folder up.
const fs = require("fs");
const git = require("isomorphic-git");
const http = require("isomorphic-git/http/node");

async function push(url, gitdir, specs) {
  let failed = false;
  for (const spec of specs) {
    const [ref, remoteRef] = spec.split(":");
    try {
      const onMessage = (line) => console.log("remote:", line.trim());
      // To delete, it wants a ref that is there on this side too.
      const target = ref ? { ref, remoteRef } : { ref: "HEAD", remoteRef, delete: true };
      const result = await git.push({ fs, http, gitdir, url, ...target, onMessage });
      for (const [name, { ok, error }] of Object.entries(result.refs)) console.log(name, ok ? "ok" : error);
    } catch (error) {
      failed = true;
      console.log(error.message, JSON.stringify(error.data));
    }
  }
  process.exitCode = failed ? 1 : 0;
}

async function main([action, url, gitdir, ...specs]) {
  switch (action) {
    case "list":
      for (const { ref, oid } of await git.listServerRefs({ http, url })) console.log(`${oid}\t${ref}`);
      break;
    case "clone":
      await git.clone({ fs, http, dir: gitdir, gitdir, url, noCheckout: true });
      break;
    case "fetch":
      await git.addRemote({ fs, gitdir, remote: "from", url, force: true });
      await git.setConfig({ fs, gitdir, path: "remote.from.fetch", value: "+refs/heads/*:refs/from/*" });
      await git.fetch({ fs, http, gitdir, remote: "from" });
      break;
    default:
      await push(url, gitdir, specs);
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.log(error.message);
  process.exitCode = 1;
});
