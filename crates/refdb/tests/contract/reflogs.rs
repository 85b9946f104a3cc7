use crate::common::{Subject, With, at, create, delete, everywhere, name, set};
use bstr::BStr;
use refdb::{
    Edit, Error, LogJudge, LoggedChange, Misuse, PruneLogs, RefName, Result,
    transaction::{LogPolicy, Mode},
};
use refdb_testkit::RefFormat;

#[test]
fn branches_and_head_are_logged_as_git_logs_them() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.policy = LogPolicy::Usual;
        subject
            .succeed([create("HEAD", ids[0]).message("first\n commit"), create("refs/tags/t", ids[0]).message("tag")]);
        subject.succeed([set("refs/heads/main", ids[1]).expecting(at(ids[0])).message("  second ")]);
        assert_eq!(subject.log("HEAD", &ids), ["- 0 first commit", "0 1 second"]);
        assert_eq!(subject.log("refs/heads/main", &ids), ["- 0 first commit", "0 1 second"]);
        assert_eq!(subject.log("refs/tags/t", &ids), [""; 0]);
        // The branch keeps its value and so gets no entry, but HEAD gets one.
        subject.succeed([set("refs/heads/main", ids[1]).message("again")]);
        assert_eq!(subject.log("refs/heads/main", &ids).len(), 2);
        assert_eq!(subject.log("HEAD", &ids).last().unwrap(), "1 1 again");
        // The branch's reflog is deleted with it, and HEAD's records the deletion.
        subject.succeed([delete("refs/heads/main").message("gone")]);
        assert_eq!(subject.log("refs/heads/main", &ids), [""; 0]);
        assert_eq!(subject.log("HEAD", &ids).last().unwrap(), "1 - gone");
    });
}

#[test]
fn a_reflog_that_exists_is_continued_and_one_can_be_forced() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.policy = LogPolicy::Never;
        let mut forced = create("refs/tags/t", ids[0]);
        forced.log.force_create = true;
        subject.succeed([forced, create("refs/tags/u", ids[0])]);
        subject.succeed([set("refs/tags/t", ids[1]), set("refs/tags/u", ids[1])]);
        assert_eq!(subject.log("refs/tags/t", &ids), ["- 0 ", "0 1 "]);
        assert_eq!(subject.log("refs/tags/u", &ids), [""; 0]);
        let snapshot = subject.backend.snapshot().unwrap();
        assert!(snapshot.has_log("refs/tags/t".into()).unwrap());
        assert!(!snapshot.has_log("refs/tags/u".into()).unwrap());
        assert_eq!(snapshot.log_names().unwrap(), [name("refs/tags/t")]);
        let mut silent = set("refs/tags/t", ids[0]);
        silent.log.suppress = true;
        subject.succeed([silent]);
        assert_eq!(subject.log("refs/tags/t", &ids).len(), 2);
    });
}

#[test]
fn symbolic_refs_log_what_they_lead_to() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/a", ids[0]), ("refs/heads/b", ids[1])]);
        subject.policy = LogPolicy::Usual;
        for (target, message) in [
            ("refs/heads/a", "one"),
            ("refs/heads/b", "two"),
            ("refs/heads/nowhere", "three"),
            ("refs/heads/a", "four"),
        ] {
            subject.succeed([set("refs/heads/s", target).no_deref().message(message)]);
        }
        assert_eq!(subject.log("refs/heads/s", &ids), ["- 0 one", "0 1 two", "- 0 four"]);
        subject.succeed([set("refs/heads/s", ids[1]).message("through")]);
        assert_eq!(subject.log("refs/heads/s", &ids).last().unwrap(), "0 1 through");
        assert_eq!(subject.log("refs/heads/a", &ids), ["0 1 through"]);
    });
}

#[test]
fn a_reftable_keeps_the_reflog_of_a_deleted_symbolic_ref_as_git_does() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.create_refs([("refs/heads/a", ids[0])]);
        subject.policy = LogPolicy::Usual;
        subject.succeed([set("refs/heads/s", "refs/heads/a").no_deref().message("made")]);
        subject.succeed([delete("refs/heads/s").no_deref().message("gone")]);
        let kept = match subject.repo.format() {
            RefFormat::Files => vec![],
            RefFormat::Reftable => vec!["- 0 made", "0 - gone"],
        };
        assert_eq!(subject.log("refs/heads/s", &ids), kept);
        subject.succeed([create("refs/heads/s", ids[1]).message("again")]);
        assert_eq!(subject.log("refs/heads/s", &ids), [kept, vec!["- 1 again"]].concat());
        subject.succeed([delete("refs/heads/s")]);
        assert_eq!(subject.log("refs/heads/s", &ids), [""; 0]);
        // In a reftable, a symbolic ref that led nowhere leaves a reflog without entries.
        subject.succeed([set("refs/heads/dangling", "refs/heads/none").no_deref()]);
        subject.succeed([delete("refs/heads/dangling").no_deref()]);
        let exists = subject.backend.snapshot().unwrap().has_log("refs/heads/dangling".into()).unwrap();
        assert_eq!(exists, subject.repo.format() == RefFormat::Reftable);
    });
}

#[test]
fn a_recreated_ref_begins_a_new_reflog() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.policy = LogPolicy::Usual;
        subject.succeed([create("refs/heads/a", ids[0]).message("one")]);
        subject.succeed([set("refs/heads/a", ids[1]).message("two")]);
        subject.succeed([delete("refs/heads/a")]);
        subject.succeed([create("refs/heads/a", ids[1]).message("three")]);
        assert_eq!(subject.log("refs/heads/a", &ids), ["- 1 three"]);
        subject.pack();
        assert_eq!(subject.log("refs/heads/a", &ids), ["- 1 three"]);
    });
}

#[test]
fn many_reflogs_are_looked_for_as_one_is() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        let ask = |subject: &Subject| {
            let names = [
                "HEAD",
                "refs/bisect/bad",
                "refs/changes/1/1/1",
                "refs/changes/1/1/meta",
                "refs/heads/a",
                "refs/heads/b/c",
                "refs/heads/b/d",
                "refs/heads/b/d/e",
                "refs/heads/z",
                "refs/stash",
                "refs/tags/t",
                "refs/worktree/x",
            ];
            let snapshot = subject.backend.snapshot().unwrap();
            let mut found = Vec::new();
            let look = &mut |at: usize| {
                found.push(names[at]);
                Ok(())
            };
            snapshot.having_logs(&mut names.iter().map(|name| (*name).into()), look).unwrap();
            let alone = names.into_iter().filter(|name| snapshot.has_log((*name).into()).unwrap());
            assert!(alone.eq(found.iter().copied()), "{found:?}");
            found.len()
        };
        assert_eq!(ask(subject), 0);
        subject.policy = LogPolicy::Always;
        subject.succeed([create("refs/heads/b/d", ids[0])]);
        assert_eq!(ask(subject), 1);
        let more = ["refs/bisect/bad", "refs/changes/1/1/meta", "refs/heads/z", "refs/stash", "refs/worktree/x"];
        subject.succeed(more.map(|name| create(name, ids[0])));
        assert_eq!(ask(subject), 6);
    });
}

fn taking(from: &str, edit: Edit) -> Edit {
    Edit { log: edit.log.clone().take_over(name(from)), ..edit }
}

/// Previously, files panicked, because the lock bears the short name, and memory dropped the reflog.
#[test]
fn a_reflog_is_taken_over_from_a_ref_by_either_of_its_names() {
    everywhere(|subject| {
        let ids = subject.commits(2);
        subject.policy = LogPolicy::Always;
        let (old, new) = ("main-worktree/refs/bisect/a", "refs/bisect/b");
        subject.succeed([create("refs/bisect/a", ids[0]).message("one")]);
        subject.succeed([set("refs/bisect/a", ids[1]).message("two")]);
        subject.succeed([delete(old), taking(old, create(new, ids[1]).message("renamed"))]);
        assert_eq!(subject.log(new, &ids), ["- 0 one", "0 1 two", "- 1 renamed"]);
        assert_eq!(subject.get("refs/bisect/a"), None);
    });
}

/// Previously, such a transaction on files panicked in its commit, and a rename could be made by half.
#[test]
fn a_reflog_is_not_taken_over_from_a_ref_that_may_stay() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.policy = LogPolicy::Always;
        subject.create_refs([("refs/heads/a", ids[0])]);
        let taker = || taking("refs/heads/a", create("refs/heads/b", ids[0]));
        let refused = |mode, edits: &[Edit]| {
            let tried = subject.transaction(mode, edits.iter().cloned()).and_then(|transaction| transaction.commit());
            assert!(matches!(tried, Err(Error::Misuse(Misuse::LogOfOther(_)))), "{tried:?}");
        };
        refused(Mode::Atomic, &[taker()]);
        refused(Mode::Atomic, &[set("refs/heads/a", ids[0]), taker()]);
        refused(Mode::Atomic, &[taking("refs/heads/b", create("refs/heads/b", ids[0]))]);
        refused(Mode::PerEdit, &[delete("refs/heads/a"), taker()]);
        assert_eq!(subject.git_lists(), [format!("refs/heads/a {}", ids[0])]);
        // The deletion is that of `a`, and the symbolic ref stays.
        subject.succeed([set("refs/heads/s", "refs/heads/a").no_deref()]);
        let from_s = || taking("refs/heads/s", create("refs/heads/b", ids[0]));
        refused(Mode::Atomic, &[delete("refs/heads/s"), from_s()]);
        assert_eq!(subject.get("refs/heads/b"), None);
        subject.succeed([delete("refs/heads/s").no_deref(), from_s()]);
    });
}

/// Stops at its `at`th decision, as if a signal had come.
struct Stops {
    at: usize,
    asked: usize,
    failed: usize,
}

impl LogJudge for Stops {
    fn begin(&mut self, _: &BStr, _: &mut dyn ExactSizeIterator<Item = u64>) -> Result<()> {
        Ok(())
    }

    fn goes(&mut self, _: &LoggedChange<'_>) -> Result<bool> {
        self.asked += 1;
        if self.asked == self.at { Err(Error::Interrupted(std::io::ErrorKind::Interrupted.into())) } else { Ok(true) }
    }

    fn told(&mut self, _: &LoggedChange<'_>, _: bool) {}

    fn failed(&mut self, _: &RefName, _: Error) {
        self.failed += 1;
    }
}

/// Previously, files took a signal for a failure of one log, and began the next one.
#[test]
fn a_signal_ends_the_removal_of_entries_from_all_logs() {
    everywhere(|subject| {
        let ids = subject.commits(1);
        subject.policy = LogPolicy::Always;
        subject.succeed([create("refs/heads/a", ids[0]), create("refs/heads/b", ids[0])]);
        let names = [name("refs/heads/a"), name("refs/heads/b")];
        // In files, the second decision is made under the lock.
        for at in [1, 2] {
            let mut judge = Stops { at, asked: 0, failed: 0 };
            let ended =
                subject.backend.prune_logs(&names, PruneLogs::new().report(true), &*subject.objects(), &mut judge);
            assert!(matches!(ended, Err(Error::Interrupted(_))), "{ended:?}");
            assert_eq!(judge.failed, 0);
        }
    });
}
