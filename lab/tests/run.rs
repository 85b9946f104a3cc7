//! Tests `refdb-lab run` with real processes on small synthetic repositories.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::fs;

use common::{Synthetic, files_named};
use refdb_lab::scenario::Scenario;
use refdb_testkit::Git;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A command that reports the cost that its revision contains.
const REPORT: &str = "cat \"$BUILD/cost\" >\"$COST\"";

/// The beginnings of the line with the verdict.
const VERDICTS: [&str; 3] = ["worse: ", "better: ", "cannot tell: "];

#[test]
fn a_slower_revision_is_worse_by_wall_time() {
    let planted = Synthetic::new("exec sleep \"$(cat \"$BUILD/cost\")\"", "");
    planted.commit("cost", "0.02");
    planted.commit("cost", "0.04");
    let said = planted.said("run", "HEAD~1,HEAD", &["--false-alarms", "0.05"]);
    assert!(said.contains("Benchmark 1: planted (revision = HEAD~1)\n  Time (mean ± σ):     "), "{said}");
    // Other programs on the machine delay some runs, so the ratio is not exactly 2.
    assert!(said.contains("worse: HEAD takes "), "{said}");
    assert!(said.contains(" times the wall time of HEAD~1 ("), "{said}");
}

#[test]
fn ten_percent_more_is_worse_ten_percent_less_is_better_and_equal_costs_are_equal() {
    let planted = Synthetic::new(REPORT, "judge = 'reported'");
    let (ten, eleven) = (planted.commit("cost", "1000"), planted.commit("cost", "1100"));
    let same = planted.commit("other", "nothing that costs");
    let verdict = |a: &str, b: &str| {
        planted
            .said("run", &format!("{a},{b}"), &[])
            .lines()
            .find(|line| VERDICTS.iter().any(|verdict| line.starts_with(verdict)))
            .unwrap()
            .to_owned()
    };
    let worse = verdict(&ten, &eleven);
    assert!(worse.starts_with(&format!("worse: {eleven} takes 1.100 times the reported cost of {ten} (")), "{worse}");
    assert!(verdict(&eleven, &ten).starts_with("better: "));
    let equal = verdict(&eleven, &same);
    assert!(equal.starts_with("cannot tell: ") && equal.contains("differ by less than 1 % (99 % sure, "), "{equal}");
    assert_eq!(files_named(&planted.cache(), "recipe"), 3, "each commit is built once");
    assert_eq!(planted.git(&["worktree", "list"]).lines().count(), 1, "no worktree stays");
}

#[test]
fn a_difference_that_is_certain_but_within_the_tolerance_says_so() {
    let planted = Synthetic::new(REPORT, "judge = 'reported'");
    planted.commit("cost", "10000");
    planted.commit("cost", "10003");
    let said = planted.said("run", "HEAD~1,HEAD", &["--runs-max", "8"]);
    assert!(
        said.contains("worse: HEAD takes 1.000300 times the reported cost of HEAD~1 (1.000300 to 1.000300, "),
        "{said}"
    );
    assert!(said.contains(" runs a side), which is a difference of less than 1 %\n"), "{said}");
}

/// Previously, the user's worktrees whose folders did not exist at the moment were forgotten.
#[test]
fn worktrees_of_the_user_stay_known() {
    let planted = Synthetic::new(REPORT, "judge = 'reported'");
    let (one, other) = (planted.commit("cost", "1000"), planted.commit("cost", "1100"));
    let folder = tempfile::tempdir().unwrap();
    let (here, away) = (folder.path().join("here"), folder.path().join("away"));
    planted.git(&["worktree", "add", "-q", "--detach", here.to_str().unwrap()]);
    fs::rename(&here, &away).unwrap();
    planted.said("run", &format!("{one},{other}"), &[]);
    let listed = planted.git(&["worktree", "list"]);
    assert!(listed.lines().count() == 2 && listed.contains(here.to_str().unwrap()), "{listed}");
}

/// Two commands meet at a pipe, whose ends can only be opened at the same time. One that waits for the other in vain
/// reports 1.
#[test]
fn side_by_side_both_runs_of_a_pair_happen_at_once_and_failures_have_their_side() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let said = |seconds: &str, options: &[&str]| {
        let meet = format!(
            "me=$(cat \"$BUILD/cost\")\n\
             if test $me = 1; then end='echo >'; else end='read line <'; fi\n\
             if timeout {seconds} sh -c \"$end {}\"; then echo $((me + 1)); else echo 1; fi >\"$COST\"",
            pipe.display()
        );
        let planted = Synthetic::new(&meet, "judge = 'reported'");
        let [a, b] = ["1", "2"].map(|cost| planted.commit("cost", cost));
        (planted.said("run", &format!("{a},{b}"), options), b)
    };
    let (at_once, b) = said("1", &["--side-by-side", "--false-alarms", "0.5"]);
    assert!(at_once.contains(&format!("worse: {b} takes 1.500 times the reported cost")), "{at_once}");
    assert!(at_once.contains("\nboth runs of a pair happened at the same time\n"), "{at_once}");
    let (in_turn, _) = said("0.1", &["--runs-max", "8"]);
    assert!(in_turn.contains("\ncannot tell: "), "{in_turn}");
    let planted = Synthetic::new("test \"$(cat \"$BUILD/cost\")\" = 1", "");
    let [a, b] = ["1", "2"].map(|cost| planted.commit("cost", cost));
    let said = planted.complaint("run", &format!("{a},{b}"), &["--side-by-side"]);
    assert_eq!(said, format!("refdb-lab: {b}: 'command' failed: exit status: 1"));
}

#[test]
fn each_combination_of_parameters_is_compared_by_itself() {
    let planted = Synthetic::new(
        "expr \"$refcount\" + \"$(cat \"$BUILD/cost\")\" >\"$COST\"",
        "judge = 'reported'\n[parameters]\nrefcount = ['1']",
    );
    planted.commit("cost", "10");
    planted.commit("cost", "20");
    let said = planted.said("run", "HEAD~1,HEAD", &["--parameter-list", "refcount", "10,1000000"]);
    assert!(said.contains("Benchmark 1: planted (refcount = 10, revision = HEAD~1)"), "{said}");
    assert!(said.contains("worse: HEAD takes 1.500 times"), "{said}");
    assert!(said.contains("cannot tell: "), "{said}");
}

#[test]
fn every_run_starts_from_the_state_and_the_check_sees_its_end() {
    // A run that found the folder of the previous run would fail at mkdir.
    let more = "judge = 'reported'\nsetup = 'echo state >state'\nprepare = 'cp state prepared'\ncheck = 'test -d made'";
    let planted = Synthetic::new(&format!("mkdir made; cmp state prepared; {REPORT}"), more);
    planted.commit("cost", "10");
    planted.commit("cost", "20");
    assert!(planted.said("run", "HEAD~1,HEAD", &[]).contains("worse"));
}

#[test]
fn automatic_maintenance_is_off_unless_the_scenario_measures_it() {
    for (more, off) in [("", true), ("automatic-maintenance = true", false)] {
        let wanted =
            if off { "test \"$(git config maintenance.auto)\" = false" } else { "! git config maintenance.auto" };
        let planted = Synthetic::new(&format!("{REPORT}; {wanted}"), &format!("judge = 'reported'\n{more}"));
        planted.commit("cost", "10");
        planted.commit("cost", "20");
        assert!(planted.said("run", "HEAD~1,HEAD", &[]).contains("worse"), "{more}");
    }
}

#[test]
fn what_goes_wrong_is_said_with_the_side_and_the_step() {
    let planted = Synthetic::new(
        "test ! -e \"$BUILD/fails\" || { echo 'out of luck' >&2; exit 3; }",
        "check = 'test ! -e \"$BUILD/lies\"'",
    );
    let good = planted.commit("cost", "1");
    let broken = planted.commit("broken", "");
    fs::remove_file(planted.repository().join("broken")).unwrap();
    let fails = planted.commit("fails", "");
    fs::remove_file(planted.repository().join("fails")).unwrap();
    let lies = planted.commit("lies", "");
    let complaint = |b: &str| planted.complaint("run", &format!("{good},{b}"), &[]);
    let built = complaint(&broken);
    assert!(
        built.starts_with(&format!(
            "refdb-lab: {broken} ({broken}) does not build: no rule to make it (exit status: 2; all of it is in '"
        )),
        "{built}"
    );
    assert_eq!(complaint(&fails), format!("refdb-lab: {fails}: 'command' failed: out of luck"));
    assert_eq!(complaint(&lies), format!("refdb-lab: {lies}: 'check' does not hold: exit status: 1"));
    assert!(complaint("nonsense").starts_with("refdb-lab: 'nonsense' names no commit of '"));
    assert_eq!(
        planted.complaint("run", "HEAD", &[]),
        "refdb-lab: 'HEAD' is to be two revisions with one comma between them"
    );
    let few = planted.complaint("run", "HEAD~1,HEAD", &["--runs-max", "7"]);
    assert_eq!(few, "refdb-lab: --runs-max is 7, but 8 runs of each side are the fewest that can be sure at this rate");
    let unreported = planted.complaint("run", &format!("{good},HEAD~1"), &["--judge", "reported"]);
    assert!(
        unreported.ends_with("the command left no number in the file that $COST names")
            || unreported.contains("out of luck"),
        "{unreported}"
    );
}

#[test]
fn a_build_that_fails_once_is_tried_again() {
    let planted = Synthetic::new(REPORT, "judge = 'reported'");
    let flaky = planted.folder_of_luck();
    let text = fs::read_to_string(planted.scenario()).unwrap();
    let once = format!("if mkdir '{}/'$(cat cost); then exit 1; fi\n", flaky.display());
    fs::write(planted.scenario(), text.replacen("build = '''", &format!("build = '''{once}"), 1)).unwrap();
    planted.commit("cost", "10");
    planted.commit("cost", "20");
    assert!(planted.said("run", "HEAD~1,HEAD", &[]).contains("worse"));
}

/// The case for which the lab was written: the command is as fast as before, but another program runs in it.
#[test]
fn a_slowdown_by_another_process_is_shown_as_one() {
    let planted = Synthetic::new(
        "sh \"$BUILD/script\"; sh \"$BUILD/script\" >/dev/null; cat \"$BUILD/cost\" >\"$COST\"",
        "judge = 'reported'",
    );
    planted.commit("cost", "10");
    planted.commit("script", "echo work >file\n");
    planted.commit(
        "script",
        "echo work >file; sleep 0; env git maintenance run --auto || true; echo more work >file.lock\n",
    );
    let quick = ["--false-alarms", "0.5", "--tolerance", "0.5"];
    let said = planted.said("run", "HEAD~1,HEAD", &quick);
    assert!(said.contains("NOT the same work:\n  HEAD also ran `env git maintenance run --auto` 2 times\n"), "{said}");
    assert!(said.contains("  HEAD also ran `git maintenance run --auto` 2 times\n"), "{said}");
    assert!(said.contains("  files locked: 0 in HEAD~1, 2 in HEAD\n"), "{said}");
    let same = planted.said("run", "HEAD~1,HEAD~1", &quick);
    assert!(same.contains("same work: as many programs, threads, bytes, syncs, files, refs and packs\n"), "{same}");
}

/// In one of the revisions, real git packs refs, because the script of that revision runs `git maintenance`.
#[test]
fn packing_by_maintenance_is_named_with_the_refs_it_packed() {
    let git = Git::find().program().display().to_string();
    let setup = format!(
        "setup = \"\"\"\n'{git}' init -q --bare target.git\nid=$('{git}' -C target.git commit-tree -m x $('{git}' -C \
         target.git \
         mktree </dev/null))\nseq 1200 | sed \"s|.*|create refs/heads/& $id|\" | '{git}' -C target.git update-ref \
                                               --stdin\n\"\"\""
    );
    let planted = Synthetic::new(
        "sh -e \"$BUILD/script\"; cat \"$BUILD/cost\" >\"$COST\"",
        &format!("{setup}\njudge = 'reported'\nautomatic-maintenance = true"),
    );
    planted.commit("cost", "10");
    planted.commit("script", "true\n");
    let maintenance = "-C target.git -c gc.auto=1 -c gc.autoDetach=false maintenance run --task=gc";
    planted.commit("script", &format!("'{git}' {maintenance}\n"));
    let said = planted.said("run", "HEAD~1,HEAD", &["--false-alarms", "0.5", "--tolerance", "0.5"]);
    let named = format!("HEAD also ran `git {maintenance}` from `sh -e $BUILD/script`, which packed 1,200 refs\n");
    assert!(said.contains(&named), "{said}");
    assert!(said.contains("  HEAD also ran `git pack-refs --all --prune`\n"), "{said}");
    assert!(said.contains("  loose refs in 'target.git' afterwards: 1,200 in HEAD~1, 0 in HEAD\n"), "{said}");
    assert!(said.contains("  packs in 'target.git' afterwards: 0 in HEAD~1, 1 in HEAD\n"), "{said}");
    assert!(said.contains("  bytes written: 2 in HEAD~1, "), "{said}");
}

/// The shipped scenarios build git from source. Here, a Makefile takes the place of git's own, and links to real git.
#[test]
fn the_shipped_scenarios_work_with_real_git() {
    let planted = Synthetic::new("true", "");
    let git = Git::find().program().display().to_string();
    let make = format!("git:\n\tln -s {git} git\n");
    planted.commit("Makefile", &make);
    planted.commit("README", "nothing that costs");
    for name in ["receive", "fetch"] {
        Scenario::find(name).unwrap();
        let mut lab = std::process::Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
        lab.args(["run", name, "--revisions"]).arg(planted.repository()).arg("HEAD~1,HEAD");
        lab.args(["--parameter-list", "refcount", "3", "--false-alarms", "0.5", "--runs-max", "4", "--cache"]);
        let output = common::finish(lab.arg(planted.cache()));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let title = format!("Benchmark 2: {name} (refcount = 3, refformat = reftable, revision = HEAD)");
        assert!(said.contains(&title), "{said}");
    }
}

#[test]
fn instructions_decide_with_counters_and_without() {
    let count = "i=0; read -r n <\"$BUILD/cost\" || test \"$n\"; while [ $i -lt $n ]; do i=$((i+1)); done";
    let planted = Synthetic::new(count, "judge = 'instructions'");
    planted.commit("cost", "1000");
    planted.commit("cost", "1100");
    let said = planted.said("run", "HEAD~1,HEAD", &["--false-alarms", "0.5"]);
    assert!(said.contains("worse: HEAD takes 1."), "{said}");
    assert!(said.contains(" times the instructions of HEAD~1 ("), "{said}");
    assert_eq!(said.contains("emulated by valgrind"), !refdb_lab::perf::works(), "{said}");
}
