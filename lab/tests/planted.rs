//! Tests `bisect` as a whole on random histories with planted changes: real commits, builds and runs, up to the
//! report. `make test-long` runs twenty histories of each kind, and `make test` one of some kinds. The last two tests
//! repeat the cases for which the lab was written.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::fs;

use common::{
    Synthetic,
    history::{Files, History, make},
};
use refdb_testkit::{Git, rounds};

/// Returns the number of histories of a kind that `make test` runs too.
fn histories() -> u64 {
    rounds(1, 20) as u64
}

/// Returns a program that reports the cost in its build, with noise of at most `millionths` in both directions, and
/// the commands that draw the next number of the pseudo-random sequence for it. The state of the sequence is kept
/// outside of the folders of runs, so that the whole test is repeatable. All states and costs have ten digits.
fn noisy(millionths: u32) -> (Synthetic, String) {
    let planted = Synthetic::new("@COMMAND@", "judge = 'reported'");
    let state = planted.folder_of_luck().join("state");
    fs::write(&state, "1073741824\n").unwrap();
    let draw = format!(
        "read -r state <'{0}'\nstate=$(( (state * 1103515245 + 12345) % 1073741824 + 1073741824 ))\necho $state \
         >'{0}'\n",
        state.display()
    );
    let command = format!(
        "{draw}read -r cost <\"$BUILD/cost\"\ntest ! -e \"$BUILD/more\" || . \"$BUILD/more\"\n\
         echo $(( cost * (1000000 + (state / 32768 % 32768) * {millionths} / 16384 - {millionths}) )) >\"$COST\""
    );
    let text = fs::read_to_string(planted.scenario()).unwrap();
    fs::write(planted.scenario(), text.replace("@COMMAND@", &command)).unwrap();
    (planted, draw)
}

/// The noise of wall time, which is 3 % in both directions, and that of counted instructions.
const WALL: u32 = 30_000;
const COUNTED: u32 = 2_000;

/// Returns the files of commits that cost `before` without the change, and `after` with it.
fn costs(before: u32, after: u32) -> impl Fn(bool) -> Files {
    move |is_changed| Files::from([("cost", format!("{}\n", if is_changed { after } else { before }))])
}

fn bisect(planted: &Synthetic, history: &History) -> String {
    planted.said("bisect", &format!("{},{}", history.good, history.bad), &[])
}

/// Returns whether the report names the planted commit, or a range that contains it because commits do not build.
fn names(said: &str, history: &History) -> bool {
    match said.split_once("the first bad commit is one of these ") {
        Some((before, range)) => before.contains("skipped: it does not build") && range.contains(&history.planted),
        None => said.contains(&format!("first bad commit: {} commit ", history.planted)),
    }
}

#[test]
fn ten_percent_in_noise_of_wall_time_are_found() {
    for seed in 0..histories() {
        let (planted, _) = noisy(WALL);
        let history = make(&planted, seed, None, costs(2000, 2200));
        let said = bisect(&planted, &history);
        assert!(said.contains(&format!("first bad commit: {} ", history.planted)), "history {seed}: {said}");
    }
}

#[test]
fn two_percent_in_noise_of_counts_are_found() {
    for seed in 0..rounds(0, 20) as u64 {
        let (planted, _) = noisy(COUNTED);
        let history = make(&planted, seed, None, costs(2000, 2040));
        let said = bisect(&planted, &history);
        assert!(said.contains(&format!("first bad commit: {} ", history.planted)), "history {seed}: {said}");
    }
}

#[test]
fn nothing_but_noise_is_left_alone() {
    for seed in 0..histories() {
        let (planted, _) = noisy(WALL);
        let history = make(&planted, seed, None, costs(2000, 2000));
        let revisions = format!("{},{}", history.good, history.bad);
        let said = planted.complaint("bisect", &revisions, &[]);
        assert!(said.starts_with("refdb-lab: good and bad cannot be told apart in "), "history {seed}: {said}");
        let said = planted.said("run", &revisions, &[]);
        assert!(said.contains("cannot tell: ") && said.contains("same work: as many "), "history {seed}: {said}");
    }
}

#[test]
fn the_first_faster_commit_is_found() {
    for seed in 0..rounds(0, 20) as u64 {
        let (planted, _) = noisy(WALL);
        let history = make(&planted, seed, None, costs(2200, 2000));
        let said = bisect(&planted, &history);
        assert!(said.contains(&format!("first better commit: {} ", history.planted)), "history {seed}: {said}");
    }
}

#[test]
fn commits_that_do_not_build_give_the_commit_or_a_range_with_it() {
    for seed in 0..histories() {
        let (planted, _) = noisy(WALL);
        let history = make(&planted, seed, Some(4), costs(2000, 2400));
        let said = bisect(&planted, &history);
        assert!(names(&said, &history), "history {seed}, {}: {said}", history.planted);
    }
}

#[test]
fn builds_that_fail_now_and_then_hide_no_commit_for_good() {
    for seed in 0..rounds(0, 20) as u64 {
        let (planted, draw) = noisy(WALL);
        planted.build_more(&format!("{draw}test $(( state / 32768 % 4 )) -gt 0\n"));
        let history = make(&planted, seed, None, costs(2000, 2400));
        // Both ends must build; another call retries builds that failed.
        let revisions = format!("{},{}", history.good, history.bad);
        let tries = (0..5).map(|_| planted.lab("bisect", &revisions, &[])).find(|output| output.status.success());
        let said = String::from_utf8(tries.expect("one of five calls builds the ends").stdout).unwrap();
        assert!(names(&said, &history), "history {seed}, {}: {said}", history.planted);
    }
}

/// The commit costs more, and starts another program in the background of the measured command.
#[test]
fn an_artefact_of_background_maintenance_is_named_as_one() {
    let git = "#!/bin/sh\ncat refs/heads/* >packed-refs.lock\nrm refs/heads/*\nmv packed-refs.lock packed-refs\n";
    let more = "cd repository\n\"$BUILD/git\" maintenance run --auto &\n";
    for seed in 0..histories() {
        let (planted, _) = noisy(WALL);
        let text = fs::read_to_string(planted.scenario()).unwrap();
        let setup = "mkdir -p repository/refs/heads repository/objects; cd repository; echo >HEAD; echo 1 \
                     >refs/heads/a; \
                     echo 2 >refs/heads/b";
        fs::write(planted.scenario(), format!("setup = '{setup}'\n{text}")).unwrap();
        let history = make(&planted, seed, None, |is_changed| {
            let mut files = costs(2000, 2600)(is_changed);
            if is_changed {
                files.extend([("git", git.to_owned()), ("more", more.to_owned())]);
            }
            files
        });
        let said = bisect(&planted, &history);
        assert!(said.contains(&format!("first bad commit: {} ", history.planted)), "history {seed}: {said}");
        let named = "  it also ran `git maintenance run --auto`, which packed 2 refs\n";
        assert!(said.contains(named), "history {seed}: {said}");
    }
}

/// By real wall time: from one commit on, a program that creates refs starts a thread for each.
#[test]
fn a_thread_started_for_each_ref_is_found_by_wall_time() {
    if rounds(0, 1) == 0 {
        return;
    }
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        static void *one(void *number) {\n  char lock[64], name[64];\n  sprintf(lock, \"ref-%ld.lock\", \
        (long)number);\n  \
        sprintf(name, \"ref-%ld\", (long)number);\n  FILE *file = fopen(lock, \"w\");\n  fputs(\"1\\n\", file);\n  \
        fclose(file);\n  \
        rename(lock, name);\n  return 0;\n}\nint main(void) {\n  for (long number = 0; number < 300; number++) \
        {\n#ifdef THREADS\n    \
        pthread_t thread;\n    pthread_create(&thread, 0, one, (void *)number);\n    pthread_join(thread, \
        0);\n#else\n    \
        one((void *)number);\n#endif\n  }\n  return 0;\n}\n";
    let planted = Synthetic::new("exec \"$BUILD/program\"", "");
    planted.build_more("gcc -g -O1 -pthread -o \"$BUILD/program\" program.c\n");
    let history = make(&planted, 1, None, |is_changed| {
        let define = if is_changed { "#define THREADS\n" } else { "" };
        Files::from([("program.c", format!("{define}{source}"))])
    });
    let said = bisect(&planted, &history);
    assert!(names(&said, &history), "{}: {said}", history.planted);
    if said.contains("first bad commit: ") {
        assert!(said.contains("  threads started: 0 in its parent, 300 in it\n"), "{said}");
        assert!(said.contains(" M in pthread_create"), "{said}");
    }
}

/// By real wall time, with real git: from one commit on, a fetch also runs maintenance.
#[test]
fn packing_by_maintenance_within_a_fetch_is_found_by_wall_time_and_named() {
    if rounds(0, 1) == 0 {
        return;
    }
    let git = Git::find().program().display().to_string();
    let setup = format!(
        "'{git}' init -q --bare source.git\ncd source.git\nid=$('{git}' commit-tree -m x $('{git}' mktree \
         </dev/null))\n\
         seq 300 | sed \"s|.*|create refs/heads/& $id|\" | '{git}' update-ref --stdin\n'{git}' pack-refs --all\ncd ..\n\
         '{git}' init -q --bare target.git\ncd target.git\nfor setting in maintenance.gc.enabled=false \
         maintenance.pack-refs.enabled=true \
         maintenance.autoDetach=false; do '{git}' config \"${{setting%=*}}\" \"${{setting#*=}}\"; done\n"
    );
    let more = format!("automatic-maintenance = true\nsetup = '''{setup}'''");
    let planted = Synthetic::new(". \"$BUILD/program\"", &more);
    let history = make(&planted, 2, None, |is_changed| {
        let off = if is_changed { "" } else { "-c maintenance.auto=false " };
        let fetch = format!("'{git}' -C target.git {off}fetch -q ../source.git 'refs/heads/*:refs/heads/*'\n");
        Files::from([("program", fetch)])
    });
    let said = bisect(&planted, &history);
    assert!(said.contains(&format!("first bad commit: {} ", history.planted)), "{}: {said}", history.planted);
    assert!(said.contains("  it also ran `git maintenance run --auto "), "{said}");
    assert!(said.contains("`, which packed 300 refs\n"), "{said}");
}
