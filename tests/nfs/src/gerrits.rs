//! A real Gerrit on each of two nodes, with one folder of repositories on the share: users push, submit, delete and
//! create accounts on both at once, while git packs and collects garbage on one of them. In the end both have to agree
//! on all that was acknowledged.

use crate::node::Cluster;
use std::{
    collections::{BTreeMap, BTreeSet},
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
    merged: BTreeSet<u64>,
    /// The changes with a submit whose answer was an error, which may have been made.
    perhaps_merged: BTreeSet<u64>,
    /// The commits that each branch may have, none if it may be deleted: the acknowledged one, and those of later
    /// pushes whose answers were errors.
    branches: BTreeMap<String, Vec<Option<String>>>,
    accounts: Vec<u64>,
    failed: Vec<String>,
}

/// What Gerrit and git on a node have in the end.
#[derive(Debug, PartialEq)]
struct State {
    /// The commit of each ref of changes and each branch.
    refs: BTreeMap<String, String>,
    /// The state of each change: `NEW` or `MERGED`.
    states: BTreeMap<u64, String>,
    /// The refs of accounts, one a line.
    users: String,
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
    let end = Instant::now() + ENDED_MAX;
    loop {
        let [one, two] = NODES.map(|node| {
            let state = told.look(cluster, node, &git);
            let wrong = told.wrong(&state);
            assert!(wrong.is_empty(), "node {node}:\n{}", wrong.join("\n"));
            state
        });
        if one == two {
            break;
        }
        // A request whose client has given up may still be made.
        assert!(Instant::now() < end, "the nodes agree: {one:?}\n{two:?}");
        thread::sleep(Duration::from_secs(1));
    }
    println!("both nodes have it all");
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
        let Told { changes, merged, branches, accounts, failed, .. } = self;
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
            ["merged", change] => drop(self.merged.insert(number(change))),
            ["branch", name, commit] => drop(self.branches.insert(name.to_owned(), vec![Some(commit.to_owned())])),
            ["deleted", name] => drop(self.branches.insert(name.to_owned(), vec![None])),
            ["account", account] => self.accounts.push(number(account)),
            // The user git has nothing to say if all goes well.
            [""] => {}
            _ => {
                self.doubt(line.split(':').next().unwrap_or(line));
                self.failed.push(line.to_owned());
            }
        }
    }

    /// Notes that an operation whose answer was an error may have been made.
    fn doubt(&mut self, operation: &str) {
        let mut perhaps = |name: &str, commit: Option<&str>| {
            let commits = self.branches.entry(name.to_owned()).or_insert_with(|| vec![None]);
            commits.push(commit.map(str::to_owned));
        };
        match operation.split(' ').collect::<Vec<_>>()[..] {
            ["failed", "submit", change] => drop(self.perhaps_merged.insert(change.parse().expect("a number"))),
            ["failed", "branch", name, commit] => perhaps(name, Some(commit)),
            ["failed", "deletion", name] => perhaps(name, None),
            _ => {}
        }
    }

    /// Asks Gerrit and git on a node for what concerns all that the users were told.
    fn look(&self, cluster: &Cluster, node: usize, git: &str) -> State {
        let login = URL.replace("localhost", "admin:secret@localhost");
        let listed = cluster.shell(node, &format!("git ls-remote {login}/a/demo 'refs/changes/*/1' 'refs/heads/*'"));
        let refs = listed.split(" | ").filter_map(|line| line.split_once('\t'));
        let state = |change: &u64| {
            let ask = format!("curl -sf -u admin:secret {URL}/a/changes/demo~{change}");
            cluster
                .shell(node, &format!("{ask} | grep -o '\"status\": *\"[A-Z]*\"' | grep -o '[A-Z][A-Z]*' | head -n 1"))
        };
        State {
            refs: refs.map(|(id, name)| (name.to_owned(), id.to_owned())).collect(),
            states: self.changes.keys().map(|change| (*change, state(change))).collect(),
            users: cluster.shell(node, &format!("{git} -C /mnt/share/git/All-Users.git for-each-ref refs/users/")),
        }
    }

    /// Compares what was acknowledged with what a node has, and returns a line for each difference.
    fn wrong(&self, state: &State) -> Vec<String> {
        let mut wrong = Vec::new();
        for (change, commit) in &self.changes {
            let name = format!("refs/changes/{:02}/{change}/1", change % 100);
            let now = state.refs.get(&name);
            if now != Some(commit) {
                wrong.push(format!("{name} is {now:?}, not {commit}"));
            }
            let expected: &[&str] = match () {
                () if self.merged.contains(change) => &["MERGED"],
                () if self.perhaps_merged.contains(change) => &["MERGED", "NEW"],
                () => &["NEW"],
            };
            let now = state.states.get(change).map_or("", |state| state);
            if !expected.contains(&now) {
                wrong.push(format!("change {change} is '{now}', not {}", expected.join(" or ")));
            }
        }
        for (branch, commits) in &self.branches {
            let now = state.refs.get(&format!("refs/heads/{branch}"));
            if !commits.iter().any(|commit| commit.as_ref() == now) {
                wrong.push(format!("branch {branch} is {now:?}, none of {commits:?}"));
            }
        }
        for account in &self.accounts {
            let name = format!("refs/users/{:02}/{account}", account % 100);
            if !state.users.contains(&name) {
                wrong.push(format!("{name} is missing"));
            }
        }
        wrong
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Told {
        let mut told = Told::default();
        lines.iter().for_each(|line| told.note(line));
        told
    }

    /// Returns how many differences there are if change 7 has this state, and the branch `b` this commit.
    fn wrong(told: &Told, state: &str, branch: Option<&str>) -> usize {
        let mut refs = BTreeMap::from([("refs/changes/07/7/1".to_owned(), "c7".to_owned())]);
        refs.extend(branch.map(|commit| ("refs/heads/b".to_owned(), commit.to_owned())));
        told.wrong(&State { refs, states: BTreeMap::from([(7, state.to_owned())]), users: String::new() }).len()
    }

    #[test]
    fn a_failed_submit_makes_one_change_doubtful_and_no_other() {
        let clear = ["change 7 c7", "failed submit 8: 500", "failed account: 500", "failed branch b2 c: fatal"];
        let doubtful = ["change 7 c7", "failed submit 7: 500"];
        let merged = ["change 7 c7", "failed submit 7: 500", "merged 7"];
        for (lines, new, closed) in [(&clear[..], 0, 1), (&doubtful, 0, 0), (&merged, 1, 0)] {
            let told = told(lines);
            assert_eq!([wrong(&told, "NEW", None), wrong(&told, "MERGED", None)], [new, closed], "{lines:?}");
            assert_eq!(wrong(&told, "ABANDONED", None), 1);
        }
    }

    #[test]
    fn a_failed_push_makes_one_branch_doubtful_until_its_next_acknowledged_one() {
        let never: &[&str] = &["failed branch b c2: fatal: lost"];
        let created = &["branch b c1"];
        let perhaps_deleted = &["branch b c1", "failed deletion b: error: lost"];
        let deleted = &["branch b c1", "failed deletion b: error: lost", "deleted b"];
        let perhaps_anew = &["branch b c1", "deleted b", "failed branch b c2: fatal: lost"];
        for (lines, gone, first, second) in [
            (never, 0, 1, 0),
            (created, 1, 0, 1),
            (perhaps_deleted, 0, 0, 1),
            (deleted, 0, 1, 1),
            (perhaps_anew, 0, 1, 0),
        ] {
            let told = told(&[&["change 7 c7"], lines].concat());
            let now = [None, Some("c1"), Some("c2")].map(|branch| wrong(&told, "NEW", branch));
            assert_eq!(now, [gone, first, second], "{lines:?}");
        }
    }
}
