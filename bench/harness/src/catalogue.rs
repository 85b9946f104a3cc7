//! All jobs with their targets and floors (what a minimal program that moves the same bytes costs).

use crate::{
    job::{Input, Job, Reach, Step},
    place::Disk,
    receive,
    seed::{Commits, Content, Format, change},
    size::Size,
};

/// Every job, in the order of the tables.
pub fn jobs(size: Size, commits: &Commits) -> Vec<Job> {
    let mut jobs = vec![start()];
    jobs.extend(reftable(size));
    jobs.extend(one_ref(Format::Reftable, size, commits));
    jobs.extend(lists(Format::Reftable, size));
    jobs.push(migrate(Format::Reftable, size));
    jobs.extend(files(size));
    jobs.extend(one_ref(Format::Files, size, commits));
    jobs.extend(lists(Format::Files, size));
    jobs.push(migrate(Format::Files, size));
    jobs.extend(receive::jobs(size));
    jobs
}

/// What a program costs before it does anything.
fn start() -> Job {
    Job {
        id: "start",
        format: Format::Reftable,
        content: Content::Empty,
        disk: Disk::Tmpfs,
        reflogs: false,
        reads: true,
        judged: 0,
        steps: vec![command("start and print the version".to_owned(), ["--version"]).floor(0.46)],
    }
}

fn reftable(size: Size) -> Vec<Job> {
    let Size { existing, edits, tombstones, bulk, .. } = size;
    let base = Job {
        id: "",
        format: Format::Reftable,
        content: Content::Existing,
        disk: Disk::Tmpfs,
        reflogs: false,
        reads: false,
        judged: 1,
        steps: Vec::new(),
    };
    let s1 = Reach { millions: Some(60.0), wall: Some(0.25), ..Reach::default() };
    vec![
        Job {
            id: "s1",
            steps: vec![update(format!("create {edits} on {existing}"), Input::Create(edits)).reach(s1).floor(40.0)],
            ..base.clone()
        },
        Job {
            id: "s1-distinct",
            steps: vec![
                update(format!("create {edits} on {existing}, distinct object ids"), Input::CreateDistinct(edits))
                    .reach(millions(350.0)),
            ],
            ..base.clone()
        },
        Job {
            id: "s1-reflogs",
            reflogs: true,
            steps: vec![
                update(format!("create {edits} on {existing}, with reflogs"), Input::Create(edits))
                    .reach(millions(120.0)),
            ],
            ..base.clone()
        },
        Job { id: "s2", content: Content::Empty, steps: again(edits, Some(60.0), Some(22.0)), ..base.clone() },
        Job { id: "s2-large", content: Content::Empty, steps: again(tombstones, Some(500.0), None), ..base.clone() },
        Job {
            id: "s3",
            content: Content::Empty,
            steps: vec![
                update(format!("create {bulk} in an empty repository"), Input::Create(bulk))
                    .reach(Reach { peak: Some(200.0), ..millions(4_000.0) })
                    .floor(1_837.0),
            ],
            ..base
        },
    ]
}

fn files(size: Size) -> Vec<Job> {
    let Size { existing, edits, big, .. } = size;
    let base = Job {
        id: "files-s1",
        format: Format::Files,
        content: Content::Existing,
        disk: Disk::Tmpfs,
        reflogs: false,
        reads: false,
        judged: 1,
        steps: vec![update(format!("create {edits} on {existing}"), Input::Create(edits)).reach(millions(300.0))],
    };
    let delete = Reach { part: Some(0.05), wall: Some(0.2), ..Reach::default() };
    vec![
        base.clone(),
        Job {
            id: "files-s1-ext4",
            disk: Disk::Ext4,
            steps: vec![
                update(format!("create {edits} on {existing}"), Input::Create(edits))
                    .reach(Reach { wall: Some(0.25), ..Reach::default() }),
            ],
            ..base.clone()
        },
        Job {
            id: "files-s1-distinct",
            steps: vec![update(
                format!("create {edits} on {existing}, distinct object ids"),
                Input::CreateDistinct(edits),
            )],
            ..base.clone()
        },
        Job { id: "files-s2", content: Content::Empty, steps: again(edits, None, None), ..base.clone() },
        Job {
            id: "files-delete-one",
            content: Content::Big,
            steps: vec![
                command(format!("delete one of {big} packed"), ["update-ref", "-d", &middle(size)]).reach(delete),
            ],
            ..base
        },
    ]
}

/// Listing, reading one and updating one of the big repository.
fn one_ref(format: Format, size: Size, commits: &Commits) -> [Job; 3] {
    let big = size.big;
    let reftable = format == Format::Reftable;
    let base = Job {
        id: "",
        format,
        content: Content::Big,
        disk: Disk::Tmpfs,
        reflogs: false,
        reads: true,
        judged: 1,
        steps: Vec::new(),
    };
    let name = middle(size);
    let (list, show, set) = if reftable { ("list", "show", "set") } else { ("files-list", "files-show", "files-set") };
    let only_reftable = |most: f64| if reftable { millions(most) } else { Reach::default() };
    let floor = |millions: f64| reftable.then_some(millions);
    [
        Job {
            id: list,
            steps: vec![
                command(format!("list all of {big}"), ["for-each-ref", "--format=%(objectname) %(refname)"])
                    .reach(millions(800.0))
                    .maybe_floor(floor(384.0)),
            ],
            ..base.clone()
        },
        Job {
            id: show,
            steps: vec![
                command(format!("show-ref --verify one of {big}"), ["show-ref", "--verify", &name])
                    .reach(only_reftable(1.0))
                    .maybe_floor(floor(0.44)),
            ],
            ..base.clone()
        },
        Job {
            id: set,
            reads: false,
            steps: vec![
                command(format!("update one of {big}"), ["update-ref", &name, &commits[0]])
                    .reach(only_reftable(1.3))
                    .maybe_floor(floor(0.45)),
            ],
            ..base
        },
    ]
}

/// Listing the big repository as most scripts do, and few refs of it.
fn lists(format: Format, size: Size) -> [Job; 3] {
    let big = size.big;
    let ids = match format {
        Format::Reftable => ["list-types", "list-show-ref", "list-prefix"],
        Format::Files => ["files-list-types", "files-list-show-ref", "files-list-prefix"],
    };
    // In the folder of the change in the middle, ten changes of three refs each lie behind a prefix.
    let number = 100_000 + size.big / 2 / 3;
    let few = [0, 1, 2].map(|next| format!("refs/changes/{:02}/{}*/*", number % 100, number / 1000 + next));
    let few = ["for-each-ref", "--format=%(objectname) %(refname)"].into_iter().chain(few.iter().map(String::as_str));
    let show_ref = if format == Format::Files { 700.0 } else { 650.0 };
    let steps = [
        command(format!("list all of {big} with their types"), ["for-each-ref"]).reach(millions(1_500.0)),
        command(format!("show-ref all of {big}"), ["show-ref"]).reach(millions(show_ref)),
        command(format!("list 90 of {big} by prefix"), few).reach(millions(1.9)),
    ];
    let mut ids = ids.into_iter();
    steps.map(|step| Job {
        id: ids.next().unwrap_or_default(),
        format,
        content: Content::Big,
        disk: Disk::Tmpfs,
        reflogs: false,
        reads: true,
        judged: 1,
        steps: vec![step],
    })
}

/// Bringing all refs of the big repository from one format into the other.
fn migrate(format: Format, size: Size) -> Job {
    let (id, other, most, peak) = match format {
        Format::Reftable => ("migrate", Format::Files, 1_000.0, 60.0),
        Format::Files => ("files-migrate", Format::Reftable, 2_800.0, 150.0),
    };
    let (name, to) = (other.name(), format!("--ref-format={}", other.name()));
    let step = command(format!("migrate {} to {name}", size.big), ["refs", "migrate", &to]);
    Job {
        id,
        format,
        content: Content::Big,
        disk: Disk::Tmpfs,
        reflogs: false,
        reads: false,
        judged: 1,
        steps: vec![step.reach(Reach { peak: Some(peak), ..millions(most) })],
    }
}

/// Create, delete, create again: the second creation meets tombstones and leaves what the first one left.
fn again(count: usize, most: Option<f64>, floor: Option<f64>) -> Vec<Step> {
    let reach = Reach { millions: most, ..Reach::default() };
    vec![
        update(format!("create {count} in an empty repository"), Input::Create(count)),
        update(format!("delete the {count}"), Input::Delete(count)),
        update(format!("create the {count} again"), Input::Create(count)).reach(reach).maybe_floor(floor),
    ]
}

/// A ref in the middle of the big repository.
fn middle(size: Size) -> String {
    change(size.big / 2)
}

fn millions(most: f64) -> Reach {
    Reach { millions: Some(most), ..Reach::default() }
}

fn update(title: String, input: Input) -> Step {
    Step { input: Some(input), ..command(title, ["update-ref", "--stdin"]) }
}

fn command<'a>(title: String, args: impl IntoIterator<Item = &'a str>) -> Step {
    Step {
        title,
        args: args.into_iter().map(str::to_owned).collect(),
        input: None,
        reach: Reach::default(),
        floor: None,
    }
}

impl Step {
    fn reach(self, reach: Reach) -> Step {
        Step { reach, ..self }
    }

    fn floor(self, millions: f64) -> Step {
        self.maybe_floor(Some(millions))
    }

    fn maybe_floor(self, floor: Option<f64>) -> Step {
        Step { floor, ..self }
    }
}
