//! Pushes: what a server does, fed with what a client sends, so that no client is counted.

use anyhow::Result;

use crate::{
    described::Described,
    job::{Input, Job, Reach},
    place::Disk,
    push::Push,
    seed::Format,
    size::{LARGE_FILE_BYTES, Size},
};

/// The jobs of both formats.
pub fn jobs(described: &Described, size: Size) -> Result<Vec<Job>> {
    let reftable = [
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
    ];
    let files = [
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
    ];
    let mut jobs = of(described, size, Format::Reftable, reftable, 900.0)?;
    jobs.extend(of(described, size, Format::Files, files, 1_200.0)?);
    Ok(jobs)
}

fn of(described: &Described, size: Size, format: Format, ids: [&'static str; 11], most: f64) -> Result<Vec<Job>> {
    let [few, many, auto, synced, hooked, all, forward, tip, old, hidden, large] = ids;
    let Size { existing, edits, tombstones, branches, hooked: calls, files, .. } = size;
    let job = |id, name: &str, title| described.job(id, &format!("receive-{name}"), format, title);
    let quick = Reach { millions: Some(most), wall: Some(0.4), ..Reach::default() };
    let fifth = Reach { part: Some(0.2), ..Reach::default() };
    let hook = Reach { millions: Some(1.25 * calls as f64), ..Reach::default() };
    let copied = Reach { part: Some(1.02), wall: Some(1.05), ..Reach::default() };
    let mut more = job(many, "refs", format!("{tombstones} new refs on {existing}"))?;
    more.steps.iter_mut().for_each(|step| step.input = Some(Input::Push(Push::Create(tombstones))));
    let on_disk = job(synced, "synced", format!("{edits} new refs, synced"))?;
    let advertise = job(all, "advertise", format!("show {branches} refs"))?.reading().reach(fifth);
    Ok(vec![
        job(few, "refs", format!("{edits} new refs on {existing}"))?.reach(quick),
        more,
        job(auto, "autogc", format!("{edits} new refs, receive.autogc on"))?,
        Job { disk: Disk::Ext4, ..on_disk },
        // The floor of one call is 1.21 M: `vfork`, `execve`, a pipe read to its end and `wait4`. With glibc's
        // `posix_spawn` it would be 1.30 M.
        job(hooked, "hook", format!("{calls} new refs, an update hook in sh"))?.reach(hook).floor(1.21 * calls as f64),
        // Not compared here, because each program advertises its own name. The tests of receive-pack compare the rest.
        Job { judged: 0, ..advertise },
        job(forward, "forward", format!("a commit to one of {branches}"))?.reach(fifth),
        job(tip, "tip", format!("a branch at a ref's commit, to {branches}"))?.reach(fifth),
        job(old, "old", format!("a branch at an old commit, to {branches}"))?.reach(fifth),
        job(hidden, "hidden", format!("a commit to one of {branches}, all but it hidden"))?,
        job(large, "large", format!("{} MB in {files} files", files * LARGE_FILE_BYTES / 1_000_000))?.reach(copied),
    ])
}
