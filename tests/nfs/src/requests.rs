//! How many requests a client sends to the server for each kind of operation, as its kernel counts them.

use crate::node::Cluster;
use refdb_vfs::Fs;
use std::path::Path;

/// The kinds of requests that the kernel sends in the background, which are not counted.
const BACKGROUND: [&str; 3] = ["SEQUENCE", "RENEW", "DELEGRETURN"];

/// Prints a table: each operation of a view, the number of its requests, and how many of each kind. Panics if there are
/// many more than an idle machine needs, so that a change that asks the server much more often is noticed. A busy
/// machine needs a few more, because attributes in the client's cache expire between the operations.
pub(crate) fn run(cluster: &Cluster) {
    let git = refdb_testkit::Git::find().program().display().to_string();
    for (at, format) in ["files", "reftable"].into_iter().enumerate() {
        let path = format!("/mnt/share/requests-{format}.git");
        let commits = "t=$($git mktree </dev/null) && for i in 0 1 2 3; do $git commit-tree -m $i $t; done";
        let made = cluster.make_repository(1, format, &path, commits);
        let ids: Vec<String> = made.split(" | ").map(str::to_owned).collect();
        cluster
            .shell(1, &format!("cd {path} && {git} update-ref refs/heads/packed {} && {git} pack-refs --all", ids[0]));
        let words = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        let set = |old: &str, new: &str| words(["swap", "refs/heads/loose", old, new]);
        let known = |old: &str, new: &str| words(["swap-commits", "refs/heads/loose", old, new]);
        let nothing = "0".repeat(40);
        let get = |name: &str| vec!["get".to_owned(), format!("refs/heads/{name}")];
        let pair = |old: &str, new: &str| {
            ["swap", "refs/heads/one", old, new, "refs/heads/two", old, new].map(str::to_owned).to_vec()
        };
        let operations = [
            ("a packed ref, the first time", [60, 60], get("packed")),
            ("a packed ref, again", [8, 6], get("packed")),
            ("a ref that does not exist", [10, 8], get("absent")),
            ("a ref that does not exist, again", [8, 6], get("absent")),
            ("a new ref", [50, 40], set(&nothing, &ids[0])),
            ("an update", [28, 34], set(&ids[0], &ids[1])),
            ("another update", [28, 34], set(&ids[1], &ids[2])),
            ("an update to a known commit", [22, 28], known(&ids[2], &ids[3])),
            ("another update to a known commit", [22, 30], known(&ids[3], &ids[0])),
            ("a loose ref", [10, 10], get("loose")),
            ("a loose ref, again", [8, 8], get("loose")),
            ("two new refs at once", [38, 30], pair(&nothing, &ids[0])),
            ("two updates at once", [40, 30], pair(&ids[0], &ids[1])),
        ];
        for (what, most, words) in operations {
            let mut all = vec!["view", &path];
            all.extend(words.iter().map(String::as_str));
            let (sum, said) = count(cluster, format, what, || cluster.ask(1, 1, &all).expect("the view answers"));
            assert!(!said.starts_with("refused"), "{what}: {said}");
            assert!(sum <= most[at], "{what} took {sum} requests, at most {} are expected", most[at]);
        }
    }
    list_a_folder(cluster);
}

/// Entries of a folder that is listed.
const ENTRIES: usize = 8000;

/// Listing the folder must take fewer requests. If the kind of each entry took one, it would be thousands.
const LISTING_MAX: u64 = 200;

/// Lists a large folder again after another machine has changed it.
fn list_a_folder(cluster: &Cluster) {
    let folder = "/mnt/share/folder";
    cluster.shell(2, &format!("mkdir {folder} && cd {folder} && for ((i = 1; i < {ENTRIES}; i++)); do : >$i; done"));
    let own = std::env::current_exe().expect("this program has a path");
    let names = format!("{} names {folder}", own.display());
    cluster.shell(1, &names);
    cluster.shell(2, &format!(": >{folder}/new"));
    let what = format!("a folder of {ENTRIES} files, again");
    let (sum, said) = count(cluster, "files", &what, || cluster.shell(1, &names));
    assert_eq!(said, ENTRIES.to_string());
    assert!(sum < LISTING_MAX, "{sum} requests to list a folder");
}

/// Lists a folder as refdb does, and prints how many entries it has.
pub(crate) fn names(folder: &Path) {
    let fs = Fs::real().at(folder).expect("the folder is there");
    println!("{}", fs.read_dir(folder).expect("the folder is listed").len());
}

/// Does something on the first client. Prints a row of the table, and returns the number of requests and the answer.
fn count(cluster: &Cluster, format: &str, what: &str, act: impl FnOnce() -> String) -> (u64, String) {
    let before = counts(cluster);
    let said = act();
    let sent: Vec<(String, u64)> = counts(cluster)
        .into_iter()
        .map(|(name, count)| {
            let known = before.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
            (name, count - known)
        })
        .filter(|(name, count)| *count > 0 && !BACKGROUND.contains(&name.as_str()))
        .collect();
    let sum = sent.iter().map(|(_, count)| count).sum();
    let kinds: Vec<String> = sent.iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!("| {format} | {what} | {sum} | {} |", kinds.join(", "));
    (sum, said)
}

/// Returns how many requests of each kind the first client has sent so far.
fn counts(cluster: &Cluster) -> Vec<(String, u64)> {
    let said = cluster.shell(1, "sed -n '/per-op/,$p' /proc/self/mountstats");
    let lines = said.split(" | ").filter_map(|line| line.trim().split_once(": "));
    lines.filter_map(|(name, rest)| Some((name.to_owned(), rest.split(' ').next()?.parse().ok()?))).collect()
}
