//! A real Gerrit on each of two nodes, with one folder of repositories on the share: users push, submit, delete and
//! create accounts on both at once, while git packs and collects garbage on one of them. In the end both have to agree
//! on all that was acknowledged.

use crate::node::Cluster;
use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const URL: &str = "http://localhost:8080";
const READY_MAX: Duration = Duration::from_secs(400);
const ENDED_MAX: Duration = Duration::from_secs(300);
const NODES: [usize; 2] = [1, 2];
/// The numbers of the users on each node, by which their clones and their reports are named. The last one on the first
/// node packs refs and collects garbage instead.
const USERS: [usize; 3] = [1, 2, 3];

/// What the users were told.
#[derive(Default)]
struct Told {
    /// The commit of each change.
    changes: BTreeMap<u64, String>,
    merged: Vec<u64>,
    /// The commit of each branch; none if it was deleted.
    branches: BTreeMap<String, Option<String>>,
    accounts: Vec<u64>,
    failed: Vec<String>,
}

/// Runs both Gerrits from the site at `site`, which has refdb installed, for some seconds. Panics if they lose
/// anything.
pub(crate) fn run(cluster: &Cluster, site: &Path, java: &Path, seconds: u64) {
    let git = refdb_testkit::Git::find().program().display().to_string();
    set_up(cluster, &git, site, java);
    println!("both Gerrits run");
    work(cluster, seconds);
    let mut told = Told::default();
    for node in NODES {
        for line in USERS {
            cluster.shell(node, &format!("cat /mnt/said{line}")).split(" | ").for_each(|line| told.note(line));
        }
    }
    told.print();
    NODES.iter().for_each(|node| told.check(cluster, *node, &git));
}

/// Starts the first Gerrit, which makes a project, and then the second one.
fn set_up(cluster: &Cluster, git: &str, site: &Path, java: &Path) {
    let site_of_node = format!("cp -r {} /mnt/site && rm -rf /mnt/site/git /mnt/site/bin", site.display());
    cluster.shell(1, &format!("cp -r {}/git /mnt/share/git", site.display()));
    for node in NODES {
        cluster.shell(node, &site_of_node);
        let set = format!("{git} config -f /mnt/site/etc/gerrit.config");
        cluster.shell(node, &format!("{set} gerrit.basePath /mnt/share/git"));
        cluster.shell(node, &format!("{set} accountPatchReviewDb.url jdbc:h2:file:/mnt/site/db/reviews"));
        start(cluster, node, &site.join("bin/gerrit.war"), java);
        if node == NODES[0] {
            put(cluster, "PUT", "/projects/demo", r#"{"create_empty_commit":true,"branches":["master"]}"#);
            let rules = r#"{"rules":{"global:Registered-Users":{"action":"ALLOW"}}}"#;
            let may_delete = format!(r#"{{"add":{{"refs/heads/*":{{"permissions":{{"delete":{rules}}}}}}}}}"#);
            put(cluster, "POST", "/projects/demo/access", &may_delete);
        }
    }
}

fn put(cluster: &Cluster, method: &str, path: &str, json: &str) {
    let send = "curl -sf -u admin:secret -H 'Content-Type: application/json'";
    cluster.shell(NODES[0], &format!("{send} -X {method} -d '{json}' {URL}/a{path}"));
}

/// Lets the users work, and waits until all have ended.
fn work(cluster: &Cluster, seconds: u64) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gerrit-user");
    for node in NODES {
        for line in USERS {
            let is_git = node == NODES[0] && line == USERS[2];
            let (name, folder) = if is_git {
                ("git".to_owned(), "/mnt/share/git/demo.git".to_owned())
            } else {
                (format!("user{node}{line}"), format!("/mnt/clone{line}"))
            };
            let user = format!("setsid {} {name} {seconds} {folder} {URL}", script.display());
            cluster.shell(node, &format!("{user} >/mnt/said{line} 2>&1 &"));
        }
    }
    thread::sleep(Duration::from_secs(seconds));
    let end = Instant::now() + ENDED_MAX;
    // The brackets keep the pattern from matching the command line of the shell that looks for the users.
    while NODES.iter().any(|node| cluster.shell(*node, "pgrep -f '[g]errit-user' | wc -l") != "0") {
        assert!(Instant::now() < end, "the users end");
        thread::sleep(Duration::from_secs(1));
    }
}

fn start(cluster: &Cluster, node: usize, war: &Path, java: &Path) {
    let start = format!(
        "mkdir -p /mnt/site/tmp /mnt/site/logs; GERRIT_TMP=/mnt/site/tmp setsid {}/bin/java -Xmx400m \
         -XX:TieredStopAtLevel=1 -XX:+UseSerialGC --enable-native-access=ALL-UNNAMED -jar {} daemon -d /mnt/site \
         --console-log --headless >/mnt/site/logs/error_log 2>&1 </dev/null &",
        java.display(),
        war.display()
    );
    cluster.shell(node, &start);
    let end = Instant::now() + READY_MAX;
    while cluster.shell(node, "grep -o 'Gerrit Code Review .* ready' /mnt/site/logs/error_log || true").is_empty() {
        if Instant::now() > end {
            panic!(
                "Gerrit does not start on node {node}: {}",
                cluster.shell(node, "tail -n 40 /mnt/site/logs/error_log")
            );
        }
        thread::sleep(Duration::from_secs(1));
    }
}

impl Told {
    fn print(&self) {
        let Told { changes, merged, branches, accounts, failed } = self;
        let counts = [changes.len(), merged.len(), branches.len(), accounts.len()];
        let [changes, merged, branches, accounts] = counts;
        println!(
            "{changes} changes, {merged} merged, {branches} branches, {accounts} accounts, {} failed",
            failed.len()
        );
        failed.iter().for_each(|failed| println!("{}", failed.chars().take(400).collect::<String>()));
        assert!(counts.iter().all(|count| *count > 0), "the users did something of each kind");
    }

    fn note(&mut self, line: &str) {
        let number = |word: &str| word.parse().expect("a number");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["change", change, commit] => {
                let before = self.changes.insert(number(change), commit.to_owned());
                assert_eq!(before, None, "change {change} was given to two commits");
            }
            ["merged", change] => self.merged.push(number(change)),
            ["branch", name, commit] => drop(self.branches.insert(name.to_owned(), Some(commit.to_owned()))),
            ["deleted", name] => drop(self.branches.insert(name.to_owned(), None)),
            ["account", account] => self.accounts.push(number(account)),
            // The user git has nothing to say if all goes well.
            [""] => {}
            _ => self.failed.push(line.to_owned()),
        }
    }

    /// Compares what was acknowledged with what Gerrit and git on a node say.
    fn check(&self, cluster: &Cluster, node: usize, git: &str) {
        let login = URL.replace("localhost", "admin:secret@localhost");
        let listed = cluster.shell(node, &format!("git ls-remote {login}/a/demo 'refs/changes/*/1' 'refs/heads/*'"));
        let refs: BTreeMap<&str, &str> =
            listed.split(" | ").filter_map(|line| line.split_once('\t')).map(|(id, name)| (name, id)).collect();
        for (change, commit) in &self.changes {
            let name = format!("refs/changes/{:02}/{change}/1", change % 100);
            assert_eq!(refs.get(&*name), Some(&&**commit), "{name} on node {node}");
        }
        for (branch, commit) in &self.branches {
            let name = format!("refs/heads/{branch}");
            assert_eq!(refs.get(&*name).copied(), commit.as_deref(), "{name} on node {node}");
        }
        for change in self.changes.keys() {
            let status =
                format!("curl -sf -u admin:secret {URL}/a/changes/demo~{change} | grep -o '\"status\": *\"[A-Z]*\"'");
            let status = cluster.shell(node, &status);
            let expected = if self.merged.contains(change) { "MERGED" } else { "NEW" };
            // A submit whose answer was an error may have been made.
            let is_right = status.contains(expected) || !self.failed.is_empty() && status.contains("MERGED");
            assert!(is_right, "change {change} on node {node}: {status}, not {expected}");
        }
        let users = cluster.shell(node, &format!("{git} -C /mnt/share/git/All-Users.git for-each-ref refs/users/"));
        for account in &self.accounts {
            let name = format!("refs/users/{:02}/{account}", account % 100);
            assert!(users.contains(&name), "{name} on node {node}");
        }
        println!("node {node} has it all");
    }
}

/// Creates a site with refdb in `folder`, of which each node gets a copy. Returns its path.
pub(crate) fn site(folder: &Path, scripts: &Path, jar: &Path, java: &Path) -> std::path::PathBuf {
    let site = folder.join("site");
    let run = |command: &mut Command| {
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new(scripts.join("gerrit/gerrit-site")).arg("new").arg(&site).args(["8080", "29418"]));
    run(Command::new(java.join("bin/java"))
        .args(["--enable-native-access=ALL-UNNAMED", "-jar"])
        .arg(jar)
        .arg("install")
        .arg(&site)
        .arg("--no-git-config"));
    site
}
