//! Tests `refdb-lab watch` in repositories that the tests create. Except in the last test, the cost of each commit is a
//! number in it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use common::{
    Synthetic, end, finish,
    watched::{COST, Watched, merge_a_slow_topic, said},
};
use refdb_testkit::rounds;
use serde_json::Value;

#[test]
fn a_step_in_a_merged_topic_is_found_attributed_and_told_once() {
    let watched = Watched::new();
    watched.idle(2);
    let slow = merge_a_slow_topic(&watched);
    watched.idle(2);
    let out = watched.watch(3, &[]);
    let alert = watched.alert(1);
    assert_eq!(alert["version"], 1);
    assert_eq!((&alert["place"], &alert["direction"]), (&"commit".into(), &"worse".into()), "{out}");
    assert_eq!(alert["commits"][0]["commit"], slow.as_str(), "{out}");
    assert!((alert["ratio"].as_f64().unwrap() - 1.1).abs() < 1e-9, "{alert}");
    assert!((alert["beside_reference"].as_f64().unwrap() - 1.1).abs() < 1e-9, "{alert}");
    let markdown = fs::read_to_string(watched.history().join("alerts/planted-1.md")).unwrap();
    assert!(markdown.starts_with(&format!("# planted costs more since {} (cost: 1100): 1.100 times", &slow[..12])));
    let repeat = markdown.lines().find_map(|line| line.trim().strip_prefix("refdb-lab run ")).unwrap();
    let again =
        format!("{} run {repeat} --cache '{}'", env!("CARGO_BIN_EXE_refdb-lab"), watched.planted.cache().display());
    let again = finish(Command::new("sh").args(["-c", &again]));
    assert!(String::from_utf8_lossy(&again.stdout).contains("takes 1.100 times the reported cost"), "{}", said(&again));
    assert_eq!(fs::read_to_string(watched.calls().with_extension("text")).unwrap(), markdown, "the command reads it");
    let before = fs::read(watched.history().join("planted.jsonl")).unwrap();
    assert_eq!(watched.watch(0, &[]), "", "nothing is measured twice");
    assert_eq!(fs::read(watched.history().join("planted.jsonl")).unwrap(), before);
    assert_eq!(watched.told(), ["planted-1"]);
    assert!(!watched.history().join("proof").exists(), "the clone of the proof is gone");
    let mut report = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    let page = finish(report.arg("report").arg(watched.history().join("planted.jsonl")));
    assert!(
        String::from_utf8_lossy(&page.stdout).contains(&watched.head()[..12]),
        "a page has it too: {}",
        said(&page)
    );
}

#[test]
fn a_step_that_went_away_and_a_drift_of_small_steps_are_told_apart() {
    let watched = Watched::new();
    watched.idle(1);
    watched.planted.commit("cost", "1200");
    watched.idle(1);
    let back = watched.planted.commit("cost", "1000");
    watched.idle(1);
    watched.watch(3, &[]);
    assert_eq!(watched.told(), ["planted-1", "planted-2"]);
    let away = watched.alert(2);
    assert_eq!((&away["takes_back"], &away["direction"]), (&1.into(), &"better".into()));
    assert_eq!(away["commits"][0]["commit"], back.as_str());
    for cost in ["1007", "1014", "1021", "1028"] {
        watched.planted.commit("cost", cost);
    }
    watched.watch(3, &[]);
    let drift = watched.alert(3);
    assert_eq!((&drift["place"], &drift["direction"]), (&"gradual".into(), &"worse".into()), "{drift}");
    assert!(drift["takes_back"].is_null(), "{drift}");
    assert_eq!(drift["before"]["commit"], drift["alarm"]["anchor"], "the whole of it is proved");
}

/// Between two measured commits, the cost rises, and then falls by more.
#[test]
fn an_alert_says_that_the_rest_of_its_interval_changes_the_other_way() {
    let watched = Watched::new();
    watched.planted.commit("cost", "1100");
    let better = watched.planted.commit("cost", "950");
    watched.idle(1);
    let out = watched.watch(3, &["--every", "3"]);
    let alert = watched.alert(1);
    assert_eq!((&alert["commits"][0]["commit"], &alert["direction"]), (&better.into(), &"better".into()), "{out}");
    let rest = &alert["rest"];
    assert!((rest["ratio"].as_f64().unwrap() - 1.1).abs() < 1e-9 && rest["low"].as_f64().unwrap() > 1.0, "{alert}");
    assert_eq!([&rest["good"], &rest["bad"]], [watched.first.as_str(), &watched.head()]);
    let markdown = fs::read_to_string(watched.history().join("alerts/planted-1.md")).unwrap();
    for text in [out, markdown] {
        assert!(text.contains("change it the other way, together 1.100 times ("), "{text}");
    }
}

/// Some commits do not build, and the next one that builds costs more.
#[test]
fn a_change_behind_builds_that_are_broken_is_a_range() {
    let watched = Watched::new();
    watched.idle(2);
    let good = watched.head();
    let mut range = vec![watched.planted.commit("broken", "")];
    range.extend(watched.idle(2));
    range.push(watched.planted.commit("cost", "1100"));
    assert!(watched.watch(0, &[]).contains("cannot be measured: it does not build: no rule to make it"));
    fs::remove_file(watched.planted.repository().join("broken")).unwrap();
    range.push(watched.planted.commit_all("mended"));
    watched.watch(3, &[]);
    let alert = watched.alert(1);
    assert_eq!((&alert["place"], &alert["before"]["commit"]), (&"range".into(), &good.as_str().into()), "{alert}");
    let mut named: Vec<&str> =
        alert["commits"].as_array().unwrap().iter().map(|one| one["commit"].as_str().unwrap()).collect();
    named.sort_unstable();
    range.sort_unstable();
    assert_eq!(named, range, "each of them may have done it");
    assert_eq!(watched.records("broken").len(), 4, "none is tried again");
}

#[test]
fn a_budget_of_nothing_leaves_the_range_and_every_third_commit_is_enough() {
    let watched = Watched::new();
    let mut commits = watched.idle(4);
    commits.push(watched.planted.commit("cost", "900"));
    commits.extend(watched.idle(2));
    watched.watch(3, &["--budget", "0", "--every", "3"]);
    assert_eq!(watched.measured(), [commits[2].clone(), commits[5].clone()]);
    let alert = watched.alert(1);
    assert_eq!((&alert["place"], &alert["direction"]), (&"range".into(), &"better".into()));
    assert_eq!(alert["commits"].as_array().unwrap().len(), 3, "{alert}");
}

/// Builds take half a second, so that the ends of the range and a few commits in it take up the time. A busy machine
/// needs more time for them.
#[test]
fn a_budget_that_runs_out_leaves_what_is_left_of_the_range() {
    let left_after = |seconds| {
        let (left, all) = left_of_the_range(seconds);
        println!("{left} of {all} are left after {seconds} s");
        left > 1 && left < all
    };
    assert!([2, 4, 8, 16, 32].into_iter().any(left_after), "no budget left a part of the range");
}

/// Returns how many of the commits of the alert are left after a search for this time, and how many there are.
fn left_of_the_range(budget_seconds: u32) -> (usize, usize) {
    let watched = Watched::new();
    watched.planted.build_more("sleep 0.5\n");
    let mut commits = watched.idle(20);
    let slow = watched.planted.commit("cost", "1200");
    commits.push(slow.clone());
    commits.extend(watched.idle(19));
    watched.watch(3, &["--budget", &format!("{budget_seconds}s"), "--every", "40"]);
    let alert = watched.alert(1);
    if alert["place"] != "range" {
        return (1, commits.len());
    }
    assert_eq!(alert["why"], "the time of the search is over", "{alert}");
    let left: Vec<&str> =
        alert["commits"].as_array().unwrap().iter().map(|one| one["commit"].as_str().unwrap()).collect();
    assert!(left.contains(&slow.as_str()), "{left:?}");
    (left.len(), commits.len())
}

#[test]
fn a_watch_of_many_commits_does_not_run_out_of_file_descriptors() {
    let watched = Watched::new();
    watched.idle(10);
    let lab = watched.command(&[]);
    let words = ["-c", "ulimit -n 24; exec \"$0\" \"$@\""];
    let output = finish(Command::new("sh").args(words).arg(lab.get_program()).args(lab.get_args()));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(watched.measured().len(), 10);
}

#[test]
fn without_a_scenario_the_one_that_init_writes_here_is_watched() {
    let watched = Watched::new();
    watched.idle(1);
    let folder = tempfile::tempdir().unwrap();
    let watch = || {
        let with = watched.command(&[]);
        let mut words: Vec<_> = with.get_args().map(ToOwned::to_owned).collect();
        let at = words.iter().position(|word| word == "--scenario").unwrap();
        words.drain(at..at + 2);
        finish(Command::new(with.get_program()).args(words).current_dir(folder.path()))
    };
    let missing = watch();
    assert!(said(&missing).contains("lab.toml"), "{}", said(&missing));
    std::fs::copy(watched.planted.scenario(), folder.path().join("lab.toml")).unwrap();
    let found = watch();
    assert!(found.status.success() && said(&found).contains("lab"), "{}", said(&found));
}

#[test]
fn two_series_of_the_same_name_are_refused() {
    let watched = Watched::new();
    let output = finish(watched.command(&[]).arg("--scenario").arg(watched.planted.scenario()));
    assert!(said(&output).contains("two series are called planted"), "{}", said(&output));
}

#[test]
fn an_alert_is_not_hidden_by_a_series_that_fails() {
    let watched = Watched::new();
    watched.idle(2);
    merge_a_slow_topic(&watched);
    watched.idle(2);
    let scenario = fs::read_to_string(watched.planted.scenario()).unwrap();
    let failing = watched.planted.scenario().with_file_name("failing.toml");
    fs::write(&failing, scenario.replace("planted", "failing").replace(COST, "exit 1")).unwrap();
    let output = finish(&mut watched.command(&["--scenario", failing.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(watched.told().len(), 1, "{}", said(&output));
    assert!(said(&output).contains("refdb-lab: failing: "), "{}", said(&output));
}

/// Previously, the status was 1, and the next watch had nothing more to report.
#[test]
fn an_alert_is_not_hidden_by_an_output_that_nobody_reads_any_more() {
    let watched = Watched::new();
    watched.idle(2);
    merge_a_slow_topic(&watched);
    watched.idle(2);
    let mut watch = watched.command(&[]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until_alarm = lines.skip_while(|line| !line.contains("the cost changed"));
    assert!(until_alarm.next().is_some(), "there is an alarm");
    drop(until_alarm);
    assert_eq!(watch.wait().unwrap().code(), Some(3));
    assert_eq!(watched.told(), ["planted-1"]);
}

/// Each run records what it has measured or found before it says so. Previously, the next run measured the same commit
/// again, or found the same change, and no run got any further.
#[test]
fn runs_whose_output_nobody_reads_come_to_an_alert() {
    let watched = Watched::new();
    watched.idle(2);
    merge_a_slow_topic(&watched);
    watched.idle(2);
    for run in 1.. {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = watched.command(&[]).stdout(writer).stderr(Stdio::null()).status().unwrap();
        if status.code() == Some(3) {
            break;
        }
        assert_eq!(status.code(), Some(1));
        assert!(run < 20, "{} commits are measured", watched.measured().len());
    }
    assert_eq!(watched.told(), ["planted-1"]);
}

/// Previously, such a sample was recorded, and the history could not be read any more.
#[test]
fn a_sample_of_the_reference_without_a_cost_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let run = format!("[ -e '{}' ] && [ \"$(cat \"$BUILD/cost\")\" = 1000 ] || {COST}", flag.display());
    let planted = Synthetic::new(&run, "judge = 'reported'");
    let first = planted.commit("cost", "1000");
    let watched = Watched::of(planted, first);
    watched.planted.commit("cost", "2000");
    watched.watch(3, &[]);
    watched.planted.commit("cost", "2001");
    fs::write(&flag, "").unwrap();
    let output = finish(&mut watched.command(&[]));
    assert!(!output.status.success(), "{}", said(&output));
    fs::remove_file(&flag).unwrap();
    let known = watched.records("point").len();
    watched.watch(0, &[]);
    assert_eq!(watched.records("point").len(), known + 1);
}

/// In the clone of the proof, the commit costs as much as the one before.
#[test]
fn what_the_proof_does_not_confirm_is_recorded_and_not_reported() {
    let watched = Watched::new();
    watched.planted.build_more("case $BUILD in */proof/*) echo 1000 >\"$BUILD/cost\" ;; esac\n");
    watched.idle(1);
    watched.planted.commit("cost", "1300");
    // An earlier watch confirmed the change, and was killed before it had recorded that.
    let alerts = watched.history().join("alerts");
    fs::create_dir_all(&alerts).unwrap();
    ["json", "md"].iter().for_each(|end| fs::write(alerts.join(format!("planted-1.{end}")), "").unwrap());
    let out = watched.watch(0, &[]);
    assert!(out.contains("planted: unconfirmed: the proof measured 1.000 times, which confirms nothing"), "{out}");
    let closed = watched.records("closed");
    assert_eq!((closed.len(), &closed[0]["confirmed"]), (1, &false.into()));
    assert_eq!(watched.told(), [""; 0]);
    assert_eq!(fs::read_dir(alerts).unwrap().count(), 0);
}

/// The program does what it did, and another one runs beside it.
#[test]
fn maintenance_is_an_artefact() {
    let watched = Watched::new();
    let text = fs::read_to_string(watched.planted.scenario()).unwrap();
    let more =
        "cat \"$BUILD/cost\" >\"$COST\"; if test -e \"$BUILD/git\"; then \"$BUILD/git\" maintenance run --auto; fi";
    fs::write(watched.planted.scenario(), text.replace(COST, more)).unwrap();
    fs::write(watched.planted.repository().join("git"), "#!/bin/sh\nexit 0\n").unwrap();
    Command::new("chmod").arg("+x").arg(watched.planted.repository().join("git")).status().unwrap();
    watched.planted.commit("cost", "1500");
    watched.watch(3, &[]);
    let conclusion = &watched.alert(1)["conclusion"];
    assert_eq!((&conclusion["kind"], &conclusion["cause"]), (&"artefact".into(), &"maintenance".into()));
}

/// A watch that is killed again and again measures each commit once, and tells of the change once.
#[test]
fn kills_at_any_moment_lose_nothing_and_repeat_nothing() {
    let watched = Watched::new();
    watched.idle(1);
    let slow = merge_a_slow_topic(&watched);
    watched.idle(1);
    let mut kills = 0;
    // The pauses differ, so that kills hit early and late moments of the work.
    for number in 0..rounds(10, 60) {
        let mut watch = watched.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(40 + 230 * (number as u64 % 20)));
        if watch.try_wait().unwrap().is_some() {
            break;
        }
        watch.kill().unwrap();
        watch.wait().unwrap();
        kills += 1;
    }
    assert!(kills > 5, "only {kills} kills");
    let output = finish(&mut watched.command(&[]));
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{}", said(&output));
    let expected = watched.planted.git(&["rev-list", "--reverse", "--first-parent", &format!("{}..", watched.first)]);
    assert_eq!(watched.measured(), expected.lines().collect::<Vec<_>>(), "each once, in order");
    assert_eq!(watched.told(), ["planted-1"]);
    assert_eq!(watched.alert(1)["commits"][0]["commit"], slow.as_str());
    assert_eq!(watched.records("closed").len(), 1);
    assert_eq!(fs::read_dir(watched.place.path()).unwrap().count(), 0, "what kills left is removed");
}

/// The user's command outlives a watch that is killed meanwhile, and the next watch does not call it again.
#[test]
fn a_kill_during_the_users_command_does_not_repeat_it() {
    let watched = Watched::new();
    watched.idle(1);
    watched.planted.commit("cost", "1300");
    let [begun, calls] = ["begun", "calls"].map(|name| watched.history().with_file_name(name));
    let command = format!("touch '{}'; sleep 1; echo \"$ALERT\" >>'{}'", begun.display(), calls.display());
    let mut watch =
        watched.command(&["--notify", &command]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !begun.exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "the command is called");
        sleep(Duration::from_millis(5));
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    watched.watch(0, &["--notify", &command]);
    sleep(Duration::from_millis(1500));
    assert_eq!(watched.told(), ["planted-1"]);
}

#[test]
fn at_intervals_new_commits_are_fetched_and_measured() {
    let watched = Watched::new();
    let clone = watched.history().with_file_name("clone");
    watched.planted.git(&["clone", "-q", ".", clone.to_str().unwrap()]);
    let first = watched.planted.commit("cost", "1000 ");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    lab.arg("watch").arg(&clone).args(["--branch", "origin/main", "--reference", &watched.first, "--interval", "1s"]);
    lab.args(["--fetch", "--history"]).arg(watched.history()).arg("--scenario").arg(watched.planted.scenario());
    lab.arg("--cache").arg(watched.planted.cache()).stdout(Stdio::null()).stderr(Stdio::null());
    let going = lab.spawn().unwrap();
    let wait_for = |commits: &[&String]| {
        let start = Instant::now();
        let known = || {
            watched.history().join("planted.jsonl").exists() && watched.measured().iter().eq(commits.iter().copied())
        };
        while !known() {
            assert!(start.elapsed() < Duration::from_secs(120), "{commits:?} are measured");
            sleep(Duration::from_millis(20));
        }
    };
    wait_for(&[&first]);
    let second = watched.planted.commit("cost", "1000  ");
    wait_for(&[&first, &second]);
    Command::new("kill").arg(going.id().to_string()).status().unwrap();
    assert!(!end(going).success());
}

/// No file may become more than 512 bytes longer than the history is after the first commit.
#[test]
fn a_line_that_does_not_fit_is_an_error_and_the_watch_goes_on_when_there_is_room() {
    let watched = Watched::new();
    let mut commits = watched.idle(1);
    watched.watch(0, &[]);
    commits.extend(watched.idle(1));
    let file = watched.history().join("planted.jsonl");
    let before = fs::read(&file).unwrap();
    let lab = watched.command(&[]);
    let words = ["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\""];
    let blocks = (before.len() / 512 + 1).to_string();
    let output = finish(Command::new("sh").args(words).arg(blocks).arg(lab.get_program()).args(lab.get_args()));
    assert_eq!(output.status.code(), Some(1));
    let complaint = said(&output);
    assert!(complaint.contains("planted: cannot write to '") && complaint.contains("File too large"), "{complaint}");
    assert_eq!(fs::read(&file).unwrap(), before, "no part of a line is left");
    watched.watch(0, &[]);
    assert_eq!(watched.measured(), commits);
}

#[test]
fn a_torn_last_line_is_cut_off_and_a_torn_line_before_it_is_named() {
    let watched = Watched::new();
    let commits = watched.idle(2);
    watched.watch(0, &[]);
    let file = watched.history().join("planted.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 40]).unwrap();
    watched.watch(0, &[]);
    assert_eq!(watched.measured(), commits);
    let torn = whole.replacen("\"kind\":\"point\"", "\"kind\":\"po", 1);
    fs::write(&file, torn).unwrap();
    let output = finish(&mut watched.command(&[]));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("planted.jsonl': line 3 is no record"), "{}", said(&output));
}

#[test]
fn after_a_rebase_the_commits_that_are_left_are_not_measured_again() {
    let watched = Watched::new();
    let kept = watched.idle(2);
    let lost = watched.idle(2);
    watched.watch(0, &[]);
    watched.planted.git(&["reset", "-q", "--hard", &kept[1]]);
    watched.planted.commit("rebased", "");
    let slow = watched.planted.commit("cost", "1200");
    watched.watch(3, &[]);
    assert_eq!(watched.alert(1)["commits"][0]["commit"], slow.as_str());
    let measured = watched.measured();
    assert_eq!(measured.len(), kept.len() + lost.len() + 2, "{measured:?}");
    // Now the branch loses the anchor itself, which is the commit that made the change certain.
    watched.planted.git(&["reset", "-q", "--hard", &kept[0]]);
    let other = watched.planted.commit("cost", "1300");
    watched.watch(3, &[]);
    assert_eq!(watched.records("anchor")[0]["commit"], kept[0].as_str());
    assert_eq!(watched.alert(3)["commits"][0]["commit"], other.as_str());
    watched.planted.git(&["checkout", "-q", "--orphan", "foreign"]);
    watched.planted.commit("cost", "1000");
    watched.planted.git(&["branch", "-q", "-M", "main"]);
    let output = finish(&mut watched.command(&[]));
    assert!(said(&output).contains("the branch has nothing in common with"), "{}", said(&output));
}

#[test]
fn another_machine_measures_the_last_commits_again_before_it_goes_on() {
    let watched = Watched::new();
    let old = watched.idle(5);
    watched.watch(0, &["--with", "machine=one"]);
    let new = watched.planted.commit("cost", "1200");
    watched.watch(3, &["--with", "machine=two"]);
    let expected: Vec<&String> = old.iter().chain(&old[2..]).chain([&new]).collect();
    assert_eq!(watched.measured().iter().collect::<Vec<_>>(), expected);
    assert_eq!(watched.records("machine").len(), 2);
    assert_eq!(watched.alert(2)["machine"]["machine"], "two");
    assert_eq!(watched.alert(2)["commits"][0]["commit"], new.as_str());
}

#[test]
fn other_settings_and_another_watch_are_refused_in_clear_words() {
    let watched = Watched::new();
    watched.idle(1);
    watched.watch(0, &[]);
    let refused = |more: &[&str]| {
        let output = finish(&mut watched.command(more));
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        said(&output)
    };
    assert!(refused(&["--tolerance", "0.5"]).contains("its tolerance is 0.01, not 0.5"));
    assert!(refused(&["--judge", "wall"]).contains("its judge is \"reported\", not \"wall\""));
    let text = fs::read_to_string(watched.planted.scenario()).unwrap();
    fs::write(watched.planted.scenario(), text.replace(COST, &format!("{COST} "))).unwrap();
    assert!(refused(&[]).contains("its recipe is "));
    fs::write(watched.planted.scenario(), text).unwrap();
    let going = watched.command(&["--interval", "1h"]).stdout(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(700));
    assert!(refused(&[]).contains("another watch is using the history"));
    Command::new("kill").arg(going.id().to_string()).status().unwrap();
    assert!(!end(going).success(), "SIGTERM ends it, also while it waits");
}

/// All commits are measured: a slowdown in a topic and its repair are seen, though the merge shows nothing.
#[test]
fn with_all_commits_a_topic_shows_what_its_merge_hides() {
    let watched = Watched::new();
    watched.idle(1);
    watched.planted.git(&["checkout", "-q", "-b", "topic"]);
    let slow = watched.planted.commit("cost", "1400");
    watched.idle(1);
    let repaired = watched.planted.commit("cost", "1000");
    watched.planted.git(&["checkout", "-q", "main"]);
    watched.planted.git(&["merge", "-q", "--no-ff", "-m", "merge the topic", "topic"]);
    assert!(!watched.watch(0, &[]).contains("ALERT"), "the first parents show nothing");
    fs::remove_dir_all(watched.history()).unwrap();
    watched.watch(3, &["--all-commits"]);
    let found: BTreeMap<u32, Value> = [1, 2].into_iter().map(|number| (number, watched.alert(number))).collect();
    assert_eq!(found[&1]["commits"][0]["commit"], slow.as_str());
    assert_eq!(found[&2]["commits"][0]["commit"], repaired.as_str());
    assert_eq!(found[&2]["takes_back"], 1);
}

/// A topic that forked off before a slowdown lacks it, which is no improvement.
#[test]
fn with_all_commits_a_topic_without_the_last_change_is_judged_by_its_merge() {
    let watched = Watched::new();
    watched.planted.git(&["checkout", "-q", "-b", "topic"]);
    watched.planted.commit("topic", "one");
    watched.planted.commit("topic", "two");
    watched.planted.git(&["checkout", "-q", "main"]);
    let slow = watched.planted.commit("cost", "1300");
    watched.watch(3, &["--all-commits"]);
    watched.planted.git(&["merge", "-q", "--no-ff", "-m", "merge the topic", "topic"]);
    watched.watch(0, &["--all-commits"]);
    assert_eq!(watched.measured(), [slow, watched.head()]);
}

/// By real wall time: from one commit on, a program that creates files starts a thread for each.
#[test]
fn threads_of_a_real_program_are_found_by_wall_time_and_are_real() {
    if rounds(0, 1) == 0 {
        return;
    }
    let source = |runs: &str| {
        format!(
            "#include <pthread.h>\n#include <stdio.h>\nstatic void *one(void *number) {{\n  char name[64];\n  \
             sprintf(name, \"file-%ld\", (long)number);\n  fclose(fopen(name, \"w\"));\n  return 0;\n}}\n\
             int main(void) {{\n  for (long number = 0; number < 300; number++) {{\n    {runs}\n  }}\n  \
             return 0;\n}}\n"
        )
    };
    let planted = Synthetic::new("exec \"$BUILD/program\"", "");
    planted.build_more("gcc -g -O1 -pthread -o \"$BUILD/program\" program.c\n");
    let first = planted.commit("program.c", &source("one((void *)number);"));
    let watched = Watched::of(planted, first);
    watched.idle(3);
    let threads = "pthread_t it; pthread_create(&it, 0, one, (void *)number); pthread_join(it, 0);";
    let slow = watched.planted.commit("program.c", &source(threads));
    watched.idle(3);
    watched.watch(3, &["--tolerance", "0.05", "--budget", "1m"]);
    let alert = watched.alert(1);
    // On a loaded machine, the time may be over before the range is down to one commit.
    let commits = alert["commits"].as_array().unwrap();
    assert!(commits.iter().any(|one| one["commit"] == slow.as_str()), "{alert}");
    let conclusion = &alert["conclusion"];
    assert_eq!(
        (&conclusion["kind"], &conclusion["cause"]),
        (&"real".into(), &"threads started".into()),
        "{conclusion}"
    );
    assert_eq!(watched.told(), ["planted-1"]);
}
