//! Compares with git the times and zones that old tools wrote: shown in every form, and used as sort keys.

use crate::common::{same, same_with};
use refdb_testkit::{RefFormat, Repo, Rng, rounds};
use refdb_types::{HashKind, ObjectId};
use std::fs;

/// Valid and malformed times. No ordinary one is later than 2099, because git's own calendar ends there, after which
/// git gets `%s` and local zones wrong.
const TIMES: [&str; 14] = [
    "1700000000",
    "0",
    "1",
    "+1700000000",
    "100",
    "01700000000",
    "1e9",
    "",
    "x",
    "17.5",
    "1700000000x",
    "4102444799",
    "99999999999999999999",
    "18446744073709551615",
];

const ZONES: [&str; 31] = [
    "+0000", "-0000", "+0530", "+051800", "+530", "+05:30", "--700", "+0a00", "+1400", "+9999", "+2400", "+2359",
    "+0099", "+00", "+5", "-", "+", "", "0530", "530", "++0530", "+-530", "-+530", "+ 530", "+0530x", "x0530", "Z",
    "+0060", "+0159", "+1", "\t+0200",
];

const FORMS: [&str; 20] = [
    "default",
    "iso",
    "iso-strict",
    "rfc",
    "short",
    "raw",
    "unix",
    "human",
    "relative",
    "local",
    "iso-local",
    "raw-local",
    "short-local",
    "iso-strict-local",
    "rfc-local",
    "human-local",
    "unix-local",
    "default-local",
    "format:%Y-%m-%d %H:%M:%S %z",
    "format-local:%c %z",
];

#[test]
fn times_and_zones_that_no_git_writes_are_shown_and_sorted_as_by_git() {
    for seed in 0..rounds(1, 20) {
        let rng = &mut Rng::new(seed as u64);
        let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
        let tree = repo.git_with_input(["hash-object", "-t", "tree", "-w", "--stdin"], "");
        // Git 2.55 compares the first pair of refs by time and all others by text, so the first pair here has no time.
        let timeless = format!("object {tree}\ntype tree\ntag t\ntagger A <a@b> {}\n\nm\n", u64::MAX);
        let timeless = repo.git_with_input(["hash-object", "-t", "tag", "-w", "--literally", "--stdin"], timeless);
        let id_of = |hex: &str| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).unwrap();
        let mut objects = vec![id_of(&timeless), id_of(&tree)];
        for zone in ZONES.into_iter().cycle().take(120) {
            // The time is usually followed by one blank, but one in eight by two or, if the zone's sign would end it
            // too, by a tab or by nothing.
            let time = if rng.one_in(2) { "1700000000" } else { rng.pick(&TIMES) };
            let gap = if !rng.one_in(8) {
                " "
            } else if zone.starts_with(['+', '-']) {
                rng.pick(&["  ", "\t", ""])
            } else {
                "  "
            };
            let who = format!("A <a@b> {time}{gap}{zone}");
            let (kind, object) = if rng.one_in(2) {
                ("commit", format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nm\n"))
            } else {
                ("tag", format!("object {tree}\ntype tree\ntag t\ntagger {who}\n\nm\n"))
            };
            let id = repo.git_with_input(["hash-object", "-t", kind, "-w", "--literally", "--stdin"], object);
            objects.push(id_of(&id));
        }
        repo.create_refs(objects.into_iter().enumerate().map(|(at, id)| (format!("refs/x/{at:03}"), id)));
        for form in FORMS {
            let format =
                format!("--format=%(refname) [%(creatordate:{form})] [%(authordate:{form})] [%(taggerdate:{form})]");
            same(repo.dir(), &["for-each-ref", &format], b"");
        }
        let keys = [
            "creatordate",
            "-authordate",
            "committerdate",
            "creatordate:iso",
            "creatordate:raw",
            "taggerdate",
            "taggerdate:short",
            "-taggerdate:iso",
            "taggerdate:relative",
            "taggerdate:default",
            "creatordate:human",
            "-taggerdate:format:%H",
        ];
        for key in keys {
            same(repo.dir(), &["for-each-ref", &format!("--sort={key}"), "--format=%(refname)"], b"");
        }
    }
}

fn shows_local_zone(form: &str) -> bool {
    form.contains("local") && ["iso", "raw", "rfc", "%z"].iter().any(|part| form.contains(part))
}

/// Leaves out `%s` and local zones, because for such years git 2.55 shows -1 and +0000.
#[test]
fn years_of_more_than_four_digits_are_shown_in_every_form_and_zone_as_by_git() {
    let repo = Repo::bare(RefFormat::Files, HashKind::Sha1);
    let tree = repo.git_with_input(["hash-object", "-t", "tree", "-w", "--stdin"], "");
    // The turns of years, at which an ISO 8601 week may belong to the other year, and dates in summer.
    let times = [253_402_300_799_u64, 253_402_300_800, 253_418_025_600, 255_000_000_000, 8_640_000_000_000]
        .into_iter()
        .chain((10_000..10_030).map(|year| {
            let years = year - 1970;
            (years * 365 + (years + 1) / 4 - (years + 69) / 100 + (years + 369) / 400) * 86_400
        }));
    let objects = times.map(|time| {
        let who = format!("A <a@b> {time} +0130");
        let object = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nm\n");
        let id = repo.git_with_input(["hash-object", "-t", "commit", "-w", "--stdin"], object);
        ObjectId::from_hex(HashKind::Sha1, id.as_bytes()).unwrap()
    });
    let objects: Vec<ObjectId> = objects.collect();
    repo.create_refs(objects.into_iter().enumerate().map(|(at, id)| (format!("refs/x/{at:03}"), id)));
    let own = ["format:%Y|%F|%C|%G|%g|%y|%D|%x|%c|%j|%U|%V|%W|%u|%a", "format-local:%c|%Z|%G-%V"];
    for form in FORMS.iter().chain(&own).filter(|form| !form.contains("%s") && !shows_local_zone(form)) {
        for zone in ["UTC", "EST5EDT,M3.2.0,M11.1.0", "<+0530>-5:30", "CET-1CEST,M3.5.0,M10.5.0/3"] {
            let format = format!("--format=%(refname) [%(creatordate:{form})]");
            same_with(repo.dir(), ("TZ", zone), &["for-each-ref", &format]);
        }
    }
}

/// Avoids negative times and times that the zone moves before 1970, because git 2.55 ends the list there while refdb
/// goes on.
#[test]
fn dates_of_reflogs_are_shown_in_every_form_as_by_git() {
    const ENTRY_ZONES: [&str; 14] = [
        "+0000", "-0000", "+0530", "-0130", "+1400", "+9999", "-1234", "+2400", "+0060", "+530", "0530", "+05300", "",
        "x",
    ];
    const ENTRY_TIMES: [&str; 10] = [
        "1700000000",
        "500000",
        "500001",
        "4102444799",
        "4102444800",
        "253402300799",
        "253402300800",
        "+1700000000",
        "",
        "x",
    ];
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let repo = Repo::bare(RefFormat::Files, hash);
        let id = repo.commit();
        repo.create_refs([("refs/heads/main", id)]);
        let entries = ENTRY_TIMES.iter().flat_map(|time| ENTRY_ZONES.iter().map(move |zone| (time, zone)));
        let lines: String = entries.map(|(time, zone)| format!("{id} {id} A <a@b> {time} {zone}\tm\n")).collect();
        fs::create_dir_all(repo.git_dir().join("logs/refs/heads")).unwrap();
        fs::write(repo.git_dir().join("logs/refs/heads/main"), lines).unwrap();
        for form in FORMS.iter().filter(|form| !shows_local_zone(form)) {
            for zone in ["UTC", "EST5EDT,M3.2.0,M11.1.0"] {
                let date = format!("--date={form}");
                same_with(repo.dir(), ("TZ", zone), &["reflog", "show", &date, "refs/heads/main"]);
                same_with(repo.dir(), ("TZ", zone), &["reflog", "show", &date, "--format=%gd %gD %gn", "main"]);
            }
        }
    }
}

#[test]
fn a_date_of_the_committer_that_means_no_time_is_refused_as_by_git() {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let id = repo.commit().to_string();
    for date in
        ["@18446744073709551615 +0000", "@99999999999999999999 +0000", "18446744073709551615 +0000", "@-1 +0000"]
    {
        same_with(repo.dir(), ("GIT_COMMITTER_DATE", date), &["update-ref", "refs/heads/x", &id]);
    }
}
