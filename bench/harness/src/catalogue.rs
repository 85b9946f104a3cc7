//! All jobs with their targets and floors (what a minimal program that moves the same bytes costs).

use anyhow::Result;

use crate::{
    described::Described,
    job::{Input, Job, Reach, Step, millions},
    place::Disk,
    receive,
    seed::{Commits, Format},
    size::Size,
};

/// Every job. Those of one format are in the order of the table of that format.
pub fn jobs(size: Size, commits: &Commits) -> Result<Vec<Job>> {
    let described = &Described::new(size, commits)?;
    // A program costs something before it does anything.
    let start = described.job("start", "start", Format::Reftable, "start and print the version".to_owned())?;
    let mut jobs = vec![Job { judged: 0, ..start.reading().floor(0.46) }];
    jobs.extend(reftable(described, size)?);
    jobs.extend(one_ref(described, Format::Reftable, size)?);
    jobs.extend(lists(described, Format::Reftable, size)?);
    jobs.push(migrate(described, Format::Reftable, size)?);
    jobs.extend(files(described, size)?);
    jobs.extend(one_ref(described, Format::Files, size)?);
    jobs.extend(lists(described, Format::Files, size)?);
    jobs.push(migrate(described, Format::Files, size)?);
    jobs.extend(receive::jobs(described, size)?);
    Ok(jobs)
}

fn reftable(described: &Described, size: Size) -> Result<Vec<Job>> {
    let Size { existing, edits, tombstones, bulk, .. } = size;
    let job = |id, title| described.job(id, id, Format::Reftable, title);
    let s1 = Reach { millions: Some(60.0), wall: Some(0.25), ..Reach::default() };
    let onto = format!("create {edits} on {existing}");
    let s3 = Reach { peak: Some(200.0), ..millions(4_000.0) };
    Ok(vec![
        job("s1", onto.clone())?.reach(s1).floor(40.0),
        job("s1-distinct", format!("{onto}, distinct object ids"))?.reach(millions(350.0)),
        job("s1-reflogs", format!("{onto}, with reflogs"))?.reach(millions(120.0)),
        again(described, "s2", Format::Reftable, edits)?.reach(millions(60.0)).floor(22.0),
        again(described, "s2-large", Format::Reftable, tombstones)?.reach(millions(500.0)),
        job("s3", format!("create {bulk} in an empty repository"))?.reach(s3).floor(1_837.0),
    ])
}

fn files(described: &Described, size: Size) -> Result<Vec<Job>> {
    let Size { existing, edits, big, .. } = size;
    let job = |id, name, title| described.job(id, name, Format::Files, title);
    let onto = format!("create {edits} on {existing}");
    let on_disk = job("files-s1-ext4", "s1", onto.clone())?.reach(Reach { wall: Some(0.25), ..Reach::default() });
    let delete = Reach { part: Some(0.05), wall: Some(0.2), ..Reach::default() };
    Ok(vec![
        job("files-s1", "s1", onto.clone())?.reach(millions(300.0)),
        Job { disk: Disk::Ext4, ..on_disk },
        job("files-s1-distinct", "s1-distinct", format!("{onto}, distinct object ids"))?,
        again(described, "files-s2", Format::Files, edits)?,
        job("files-delete-one", "delete-one", format!("delete one of {big} packed"))?.reach(delete),
    ])
}

/// Listing, reading one and updating one of the big repository.
fn one_ref(described: &Described, format: Format, size: Size) -> Result<[Job; 3]> {
    let big = size.big;
    let job = |ids: [&'static str; 2], title| described.job(id(format, ids), ids[0], format, title);
    let list = job(["list", "files-list"], format!("list all of {big}"))?.reading().reach(millions(800.0));
    let show = job(["show", "files-show"], format!("show-ref --verify one of {big}"))?.reading();
    let set = job(["set", "files-set"], format!("update one of {big}"))?;
    Ok(match format {
        Format::Reftable => {
            [list.floor(384.0), show.reach(millions(1.0)).floor(0.44), set.reach(millions(1.3)).floor(0.45)]
        }
        Format::Files => [list, show, set],
    })
}

/// Listing the big repository as most scripts do, and few refs of it.
fn lists(described: &Described, format: Format, size: Size) -> Result<[Job; 3]> {
    let big = size.big;
    let job = |ids: [&'static str; 2], title, most: f64| -> Result<Job> {
        Ok(described.job(id(format, ids), ids[0], format, title)?.reading().reach(millions(most)))
    };
    let show_ref = if format == Format::Files { 700.0 } else { 650.0 };
    Ok([
        job(["list-types", "files-list-types"], format!("list all of {big} with their types"), 1_500.0)?,
        job(["list-show-ref", "files-list-show-ref"], format!("show-ref all of {big}"), show_ref)?,
        job(["list-prefix", "files-list-prefix"], format!("list 90 of {big} by prefix"), 1.9)?,
    ])
}

/// Bringing all refs of the big repository from one format into the other.
fn migrate(described: &Described, format: Format, size: Size) -> Result<Job> {
    let (other, most, peak) = match format {
        Format::Reftable => (Format::Files, 1_000.0, 60.0),
        Format::Files => (Format::Reftable, 2_800.0, 150.0),
    };
    let title = format!("migrate {} to {}", size.big, other.name());
    let job = described.job(id(format, ["migrate", "files-migrate"]), "migrate", format, title)?;
    Ok(job.reach(Reach { peak: Some(peak), ..millions(most) }))
}

/// Create, delete, create again: the second creation leaves what the first one left, and in reftables it meets
/// tombstones.
fn again(described: &Described, id: &'static str, format: Format, count: usize) -> Result<Job> {
    let mut job = described.job(id, "s2", format, format!("create the {count} again"))?;
    let step = |title, input| Step { title, input: Some(input), args: job.steps[0].args.clone(), ..Step::default() };
    let first = step(format!("create {count} in an empty repository"), Input::Create(count));
    let second = step(format!("delete the {count}"), Input::Delete(count));
    job.steps[0].input = Some(Input::Create(count));
    job.steps.splice(0..0, [first, second]);
    Ok(job)
}

/// The name of a job that both formats have.
fn id(format: Format, [reftable, files]: [&'static str; 2]) -> &'static str {
    match format {
        Format::Reftable => reftable,
        Format::Files => files,
    }
}
