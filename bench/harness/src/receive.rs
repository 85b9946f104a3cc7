//! Pushes: what a server does, fed with what a client sends, so that no client is counted. Targets are part of each job.

use crate::{
    job::{Input, Job, Reach, Step},
    place::Disk,
    push::Push,
    seed::{Content, Format},
    size::{LARGE_FILE_BYTES, Size},
};

/// The jobs of both formats.
pub fn jobs(size: Size) -> Vec<Job> {
    let of = |format, ids: [&'static str; 11], millions| {
        let [few, many, auto, synced, hooked, all, forward, tip, old, hidden, large] = ids;
        let base = |id, content, disk, step| Job {
            id,
            format,
            content,
            disk,
            reflogs: false,
            reads: false,
            judged: 1,
            steps: vec![step],
        };
        let onto = |id, step| base(id, Content::Existing, Disk::Tmpfs, step);
        let one = |id, step| base(id, Content::Branches, Disk::Tmpfs, step);
        let Size { existing, edits, tombstones, branches, hooked: calls, files, .. } = size;
        let quick = Reach { millions: Some(millions), wall: Some(0.4), ..Reach::default() };
        let fifth = Reach { part: Some(0.2), ..Reach::default() };
        vec![
            onto(few, push(format!("{edits} new refs on {existing}"), &[], Push::Create(edits), quick)),
            onto(
                many,
                push(format!("{tombstones} new refs on {existing}"), &[], Push::Create(tombstones), Reach::default()),
            ),
            onto(
                auto,
                push(
                    format!("{edits} new refs, receive.autogc on"),
                    &["receive.autogc=true"],
                    Push::Create(edits),
                    Reach::default(),
                ),
            ),
            base(
                synced,
                Content::Existing,
                Disk::Ext4,
                push(format!("{edits} new refs, synced"), &["core.fsync=all"], Push::Create(edits), Reach::default()),
            ),
            onto(
                hooked,
                Step {
                    // `vfork`, `execve`, a pipe read to its end and `wait4`; with glibc's `posix_spawn` 1.30.
                    floor: Some(1.21 * calls as f64),
                    ..push(
                        format!("{calls} new refs, an update hook in sh"),
                        &["hook.x.event=update", "hook.x.command=exit 0;"],
                        Push::Create(calls),
                        Reach { millions: Some(1.25 * calls as f64), ..Reach::default() },
                    )
                },
            ),
            // Each says its own name: the tests of receive-pack compare the rest.
            Job { reads: true, judged: 0, ..one(all, advertise(format!("show {branches} refs"), fifth)) },
            one(forward, push(format!("a commit to one of {branches}"), &[], Push::Forward, fifth)),
            one(tip, push(format!("a branch at a ref's commit, to {branches}"), &[], Push::AtTip, fifth)),
            one(old, push(format!("a branch at an old commit, to {branches}"), &[], Push::AtOld, fifth)),
            one(
                hidden,
                push(
                    format!("a commit to one of {branches}, all but it hidden"),
                    &["receive.hideRefs=refs/heads/b", "receive.hideRefs=refs/tags"],
                    Push::Forward,
                    Reach::default(),
                ),
            ),
            base(
                large,
                Content::Empty,
                Disk::Tmpfs,
                push(
                    format!("{} MB in {files} files", files * LARGE_FILE_BYTES / 1_000_000),
                    &[],
                    Push::Large,
                    Reach { part: Some(1.02), wall: Some(1.05), ..Reach::default() },
                ),
            ),
        ]
    };
    let mut jobs = of(
        Format::Reftable,
        [
            "receive-refs",
            "receive-many",
            "receive-autogc",
            "receive-synced",
            "receive-hook",
            "receive-advertise",
            "receive-forward",
            "receive-tip",
            "receive-old",
            "receive-hidden",
            "receive-large",
        ],
        900.0,
    );
    jobs.extend(of(
        Format::Files,
        [
            "receive-files-refs",
            "receive-files-many",
            "receive-files-autogc",
            "receive-files-synced",
            "receive-files-hook",
            "receive-files-advertise",
            "receive-files-forward",
            "receive-files-tip",
            "receive-files-old",
            "receive-files-hidden",
            "receive-files-large",
        ],
        1_200.0,
    ));
    jobs
}

fn push(title: String, settings: &[&str], push: Push, reach: Reach) -> Step {
    let mut args = Vec::new();
    // Sweeping up after a push is a program of its own, but for the rows that ask for it.
    for setting in ["receive.autogc=false", "core.logAllRefUpdates=false"].iter().chain(settings) {
        args.extend(["-c".to_owned(), (*setting).to_owned()]);
    }
    args.extend(["receive-pack", "--stateless-rpc", "."].map(str::to_owned));
    Step { title, args, input: Some(Input::Push(push)), reach, floor: None }
}

fn advertise(title: String, reach: Reach) -> Step {
    let args = ["receive-pack", "--http-backend-info-refs", "."].map(str::to_owned).to_vec();
    Step { title, args, input: None, reach, floor: None }
}
