//! Random histories with branches and merges, in which one commit makes a change. A single `git fast-import` creates
//! each of them.

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
};

use refdb_lab::coin::Coin;

use super::{Synthetic, end};

/// A commit that is still to be created.
struct Plan {
    parents: Vec<usize>,
    is_changed: bool,
}

/// A history in a repository.
pub(crate) struct History {
    /// The first commit.
    pub(crate) good: String,
    /// The last commit.
    pub(crate) bad: String,
    /// The commit that made the change, which all its descendants have.
    pub(crate) planted: String,
}

/// The files of a commit, by name.
pub(crate) type Files = BTreeMap<&'static str, String>;

/// Creates a history that `seed` determines. `files` returns the files of a commit without or with the change. If
/// `broken` is given, about one in that many commits does not build, but never the first, the last or the changing one.
pub(crate) fn make(planted: &Synthetic, seed: u64, broken: Option<u64>, files: impl Fn(bool) -> Files) -> History {
    let mut luck = Coin::new(seed);
    let mut plans = topology(&mut luck);
    let place = 1 + luck.bits() as usize % (plans.len() - 1);
    for number in 0..plans.len() {
        plans[number].is_changed =
            number == place || plans[number].parents.iter().any(|parent| plans[*parent].is_changed);
    }
    let last = plans.len() - 1;
    let mut stream = String::new();
    for (number, plan) in plans.iter().enumerate() {
        stream += &format!("commit refs/heads/main\nmark :{}\n", number + 1);
        stream += "committer A U Thor <author@example.com> 1700000000 +0000\n";
        stream += &format!("data <<END\ncommit {number}\nEND\n");
        for (rank, parent) in plan.parents.iter().enumerate() {
            stream += &format!("{} :{}\n", if rank == 0 { "from" } else { "merge" }, parent + 1);
        }
        stream += "deleteall\n";
        let mut files = files(plan.is_changed);
        files.insert("number", number.to_string());
        let may_break = ![0, place, last].contains(&number);
        if may_break && broken.is_some_and(|part| luck.bits().is_multiple_of(part)) {
            files.insert("broken", String::new());
        }
        for (name, content) in files {
            stream += &format!("M 100755 inline {name}\ndata {}\n{content}\n", content.len());
        }
    }
    import(planted, &stream);
    let made = planted.git(&["log", "--format=%H %s", "main"]);
    let named = |number: usize| {
        let subject = format!("commit {number}");
        made.lines().find_map(|line| line.split_once(' ').filter(|(_, said)| *said == subject)).unwrap().0.to_owned()
    };
    History { good: named(0), bad: named(last), planted: named(place) }
}

/// Returns a line of commits with branches that are merged back.
fn topology(luck: &mut Coin) -> Vec<Plan> {
    let plan = |parents: Vec<usize>| Plan { parents, is_changed: false };
    let mut plans = vec![plan(Vec::new())];
    let mut main = 0;
    let mut next = |below: u64| luck.bits() % below;
    for _ in 0..8 + next(12) {
        plans.push(plan(vec![main]));
        let base = main;
        main = plans.len() - 1;
        if next(4) == 0 {
            let mut side = base;
            for _ in 0..1 + next(4) {
                plans.push(plan(vec![side]));
                side = plans.len() - 1;
            }
            plans.push(plan(vec![main, side]));
            main = plans.len() - 1;
        }
    }
    plans
}

fn import(planted: &Synthetic, stream: &str) {
    let mut git = Command::new("git");
    git.arg("-C").arg(planted.repository()).args(["fast-import", "--quiet"]).stdin(Stdio::piped());
    let mut importing = git.spawn().unwrap();
    importing.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(end(importing).success());
}
