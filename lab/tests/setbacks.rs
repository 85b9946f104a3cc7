//! Tests `refdb-lab watch` with runs that fail while an alarm is looked into, and with references off the branch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

use common::{
    Synthetic, finish,
    watched::{COST, Watched, said},
};

/// Adds 16 commits, of which the sixth and all later ones cost more. Returns the sixth.
fn a_slow_commit_among_16(watched: &Watched) -> String {
    watched.idle(5);
    let slow = watched.planted.commit("cost", "1200");
    watched.idle(10);
    slow
}

/// Replaces the measured command.
fn command(watched: &Watched, command: &str) {
    let text = fs::read_to_string(watched.planted.scenario()).unwrap();
    fs::write(watched.planted.scenario(), text.replace(COST, command)).unwrap();
}

/// Runs a watch, which must fail. Returns what it says.
fn failing(watched: &Watched, more: &[&str]) -> String {
    let output = finish(&mut watched.command(more));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    said(&output)
}

/// Asserts that the search judged no commit twice, and that the alert names this one.
fn assert_found(watched: &Watched, slow: &str) {
    let judged = watched.records("judged");
    let commits: BTreeSet<&str> = judged.iter().map(|one| one["commit"].as_str().unwrap()).collect();
    assert_eq!(commits.len(), judged.len(), "no commit is judged twice: {judged:?}");
    assert_eq!(watched.alert(1)["commits"][0]["commit"], slow);
    assert_eq!(watched.alert(1)["place"], "commit");
    assert_eq!(watched.records("closed").len(), 1);
    assert_eq!(watched.told(), ["planted-1"]);
}

/// Previously, the search was over, and the alert named all commits since the anchor.
#[test]
fn a_search_in_which_a_run_fails_goes_on_where_it_was() {
    let watched = Watched::new();
    let slow = a_slow_commit_among_16(&watched);
    let (file, runs) = (watched.history().join("planted.jsonl"), watched.history().with_file_name("runs"));
    // The third run after the first verdict belongs to the rounds of the second one.
    let fail = format!(
        "grep -q '\"kind\":\"judged\"' '{0}' && {{ echo >>'{1}'; test $(wc -l <'{1}') = 3; }}",
        file.display(),
        runs.display()
    );
    command(&watched, &format!("if {fail}; then echo 'no luck' >&2; exit 1; fi; {COST}"));
    let complaint = failing(&watched, &["--every", "16"]);
    assert!(complaint.contains("no luck (attempt 1 of 3; the alarm stays open"), "{complaint}");
    let before = watched.records("judged");
    assert_eq!((before.len(), watched.records("closed").len()), (1, 0), "{complaint}");
    watched.watch(3, &["--every", "16"]);
    assert!(watched.records("judged").len() > 1);
    assert_eq!(watched.records("judged")[0], before[0], "what was judged is kept");
    assert_eq!(watched.records("failed").len(), 1);
    assert_found(&watched, &slow);
}

/// Previously, the next watch began the search again.
#[test]
fn a_search_that_is_killed_goes_on_where_it_was() {
    let watched = Watched::new();
    watched.planted.build_more("sleep 0.3\n");
    let slow = a_slow_commit_among_16(&watched);
    let mut watch = watched.command(&["--every", "16"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !watched.history().join("planted.jsonl").exists() || watched.records("judged").is_empty() {
        assert!(start.elapsed() < Duration::from_secs(120), "a commit is judged");
        sleep(Duration::from_millis(5));
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(watched.records("closed").len(), 0);
    watched.watch(3, &["--every", "16"]);
    assert_found(&watched, &slow);
}

/// Previously, the alarm was closed, and the series began anew.
#[test]
fn an_alarm_stays_open_while_its_proof_fails_and_is_given_up_at_last() {
    for is_mended in [true, false] {
        let watched = Watched::new();
        let flag = watched.history().with_file_name("flag");
        let fail = format!("case $BUILD in */proof/*) ! test -e '{}' || exit 7 ;; esac", flag.display());
        command(&watched, &format!("{fail}; {COST}"));
        watched.idle(1);
        let slow = watched.planted.commit("cost", "1200");
        fs::write(&flag, "").unwrap();
        for attempt in ["attempt 1 of 3", "attempt 2 of 3"] {
            let complaint = failing(&watched, &[]);
            assert!(complaint.contains("planted: the proof failed: ") && complaint.contains(attempt), "{complaint}");
            assert_eq!(watched.records("closed").len(), 0);
        }
        if is_mended {
            fs::remove_file(&flag).unwrap();
            watched.watch(3, &[]);
            assert_found(&watched, &slow);
        } else {
            let out = watched.watch(0, &[]);
            assert!(out.contains("planted: unconfirmed: "), "{out}");
            assert_eq!(watched.records("closed").len(), 1);
        }
        assert_eq!(watched.measured().len(), 2, "nothing is measured twice");
    }
}

#[test]
fn a_reference_on_another_branch_runs_beside_all_commits_since_the_fork() {
    let watched = Watched::new();
    let fork = watched.idle(1).remove(0);
    watched.planted.git(&["checkout", "-q", "-b", "release"]);
    let release = watched.planted.commit("cost", "500");
    watched.planted.git(&["checkout", "-q", "main"]);
    let last = watched.idle(1).remove(0);
    watched.planted.commit("cost", "1200");
    watched.watch(3, &["--reference", &release]);
    assert_eq!(watched.records("anchor")[0]["commit"], fork.as_str());
    assert_eq!(watched.records("anchor")[0]["why"], format!("the branch does not have {release}"));
    assert_eq!(watched.measured(), [last, watched.head()]);
    assert_eq!(watched.records("point")[0]["reference"]["commit"], release.as_str());
    let (_, alert) = (watched.told(), watched.alert(2));
    assert!((alert["beside_reference"].as_f64().unwrap() - 2.4).abs() < 1e-9, "{alert}");
}

/// Previously, the history was begun, and refused any other reference from then on.
#[test]
fn a_reference_that_has_nothing_in_common_with_the_branch_begins_no_history() {
    let watched = Watched::new();
    let kept = watched.idle(1);
    watched.planted.git(&["checkout", "-q", "--orphan", "foreign"]);
    let foreign = watched.planted.commit("cost", "900");
    watched.planted.git(&["checkout", "-q", "main"]);
    let complaint = failing(&watched, &["--reference", &foreign]);
    let wanted = format!("the reference {} has nothing in common with the branch 'main'", &foreign[..12]);
    assert!(complaint.contains(&wanted), "{complaint}");
    watched.watch(0, &[]);
    assert_eq!(watched.measured(), kept);
}

/// The lock of a build is kept by what a killed lab has left. Previously, the next lab built beside it.
#[test]
fn a_build_that_outlives_its_lab_is_waited_for() {
    let planted = Synthetic::new("true", "");
    let log = planted.folder_of_luck().join("log");
    let log_of = |word: &str| format!("echo {word} >>'{}'\n", log.display());
    planted.build_more(&format!("{}sleep 3\n{}", log_of("begin"), log_of("end")));
    let (a, b) = (planted.commit("one", ""), planted.commit("two", ""));
    let mut lab = planted.command("run", &format!("{a},{b}"), &[]);
    let mut killed = lab.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !log.exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "a build begins");
        sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    planted.said("run", &format!("{a},{b}"), &[]);
    let log = fs::read_to_string(&log).unwrap();
    let words: Vec<&str> = log.lines().collect();
    assert!(words.chunks(2).all(|pair| pair == ["begin", "end"]), "one after the other: {words:?}");
    assert_eq!(words.len(), 6, "that of the killed lab, and two more");
}
