//! The committer in the reflog is the same as with real git.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_repo::{Environment, Repository, committer};
use refdb_testkit::{Git, RefFormat, Repo, Rng};
use refdb_vfs::Fs;
use std::cell::Cell;

struct Place {
    repo: Repo,
    commit: String,
    count: Cell<u32>,
}

type Variables<'a> = &'a [(&'a str, &'a str)];

impl Place {
    fn new() -> Self {
        let repo = Repo::with_worktree(RefFormat::Files, Default::default());
        let commit = repo.commit().to_string();
        Place { repo, commit, count: Cell::new(0) }
    }

    /// `name <email> seconds offset` of the reflog line that git writes, or what it says instead.
    fn gits(&self, variables: Variables<'_>) -> Result<String, String> {
        self.count.set(self.count.get() + 1);
        let name = format!("refs/heads/b{}", self.count.get());
        let mut command = Git::find().command(self.repo.dir());
        for unset in ["GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "TZ"] {
            command.env_remove(unset);
        }
        command.envs(variables.iter().copied()).args(["update-ref", "-m", "m", &name, &self.commit]);
        let output = command.output().unwrap();
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(128));
            return Err(String::from_utf8(output.stderr).unwrap());
        }
        // The file is not read through git, which passes over lines whose dates it thinks impossible.
        let line = std::fs::read_to_string(self.repo.git_dir().join("logs").join(&name)).unwrap();
        let ids = 2 * (self.repo.hash().len_hex() + 1);
        Ok(line[ids..].split('\t').next().unwrap().to_owned())
    }

    fn ours(&self, variables: Variables<'_>) -> Result<String, String> {
        let mut environment = Environment::empty(self.repo.dir()).with("GIT_CONFIG_NOSYSTEM", "1");
        for (name, value) in variables {
            environment = environment.with(*name, *value);
        }
        let fs = Fs::real();
        let repository = Repository::discover(&fs, &environment).unwrap();
        let config = repository.config(&fs, &environment, &|| None).unwrap();
        let ident = committer(&config, &environment).map_err(|error| format!("fatal: {error}\n"))?;
        Ok(format!("{} <{}> {} {:+05}", ident.name, ident.email, ident.time_seconds, ident.offset_decimal))
    }

    #[track_caller]
    fn same(&self, variables: Variables<'_>) {
        assert_eq!(self.ours(variables), self.gits(variables), "{variables:?}");
    }
}

const DATE: (&str, &str) = ("GIT_COMMITTER_DATE", "@1700000000 +0100");

#[test]
fn names_come_from_where_git_takes_them() {
    let place = Place::new();
    place.same(&[DATE]);
    for (name, value) in [
        ("EMAIL", "x@y"),
        ("EMAIL", ""),
        ("GIT_COMMITTER_NAME", "N"),
        ("GIT_COMMITTER_NAME", ""),
        ("GIT_COMMITTER_NAME", " "),
        ("GIT_COMMITTER_NAME", " .,:;<>\""),
        ("GIT_COMMITTER_NAME", " .A <x>\nb. ;"),
        ("GIT_COMMITTER_NAME", "\u{e9} 'x'"),
        ("GIT_COMMITTER_EMAIL", "e"),
        ("GIT_COMMITTER_EMAIL", ""),
        ("GIT_COMMITTER_EMAIL", "<a@b>"),
        ("GIT_CONFIG_PARAMETERS", "'user.name'='U'"),
        ("GIT_CONFIG_PARAMETERS", "'user.name'=''"),
        ("GIT_CONFIG_PARAMETERS", "'user.email'='u@e'"),
        ("GIT_CONFIG_PARAMETERS", "'user.email'=''"),
        ("GIT_CONFIG_PARAMETERS", "'committer.name'='C' 'user.name'='U' 'user.email'='u' 'committer.email'='c'"),
        ("GIT_CONFIG_PARAMETERS", "'author.name'='A' 'author.email'='a'"),
        ("GIT_CONFIG_PARAMETERS", "'user.useConfigOnly'='true'"),
    ] {
        place.same(&[DATE, (name, value)]);
        place.same(&[DATE, ("EMAIL", "z@z"), (name, value)]);
    }
}

#[test]
fn dates_are_read_as_git_reads_them() {
    let place = Place::new();
    let name = [("GIT_COMMITTER_NAME", "N"), ("GIT_COMMITTER_EMAIL", "e")];
    let mut different = Vec::new();
    for date in [
        "@1112911993 -0700",
        "1112911993 -0700",
        "1112911993",
        "@0 +0000",
        "0 +0000",
        "@1 +0100",
        "@5 -0130",
        "@1",
        "1112911993 +0130",
        "2005-04-07T22:13:13",
        "2005-04-07 22:13:13",
        "2005-04-07T22:13:13 +0200",
        "2005-04-07T22:13:13Z",
        "2005-04-07T22:13:13+02:00",
        "2005-04-07T22:13:13.019",
        "2005-04-07T22:13:13.019 -0300",
        "Thu, 07 Apr 2005 22:13:13 +0200",
        "Thu, 7 Apr 2005 22:13:13 -0700",
        "2005.04.07 22:13:13",
        "04/07/2005 22:13:13",
        "07.04.2005 22:13:13",
        "13/04/2005 22:13",
        "04.13.2005 22:13",
        "Thu Apr 7 15:13:13 2005 -0700",
        "Thu Apr 7 15:13:13 2005",
        "nonsense",
        "2005-04-07",
        "now",
        "1112911993 +9999",
        "1112911993 0700",
        "1112911993 -07",
        "@1112911993",
        "@1112911993 +020",
        "@1112911993 0200",
        "99999999999999999999 +0000",
        "@99999999999 +0000",
        "1112911993 UTC",
        "2005-04-07T22:13",
        "2005-04-07T221313",
        "20050407T221313",
        "20050407T221313Z",
        "20050407",
        "2100-01-01 00:00:00 +0000",
        "1969-12-31 23:00:00 +0000",
        "12345678 +0000",
        "123456789 +0000",
        "2005-04-07T22:13:13 EST",
        "2005-04-07T22:13:13 CEST",
        "7 Apr 2005 22:13",
        "April 7 2005",
        "2005-13-07 00:00:00",
        "@-1 +0000",
        "2005-04-07 22:13:13 -0700 x",
        "yesterday",
        "2005-07-07 12:00:00",
        "7 July 05 10:00 PM",
        "July 7 99 12:30 AM",
        "2005-07-07 22:30 PM",
        "12:30:61 2005-04-07",
        "1-2-3 4:5:6",
        "05-04-07 1:2:3",
        "31 Feb 2006 1:1",
        "2006-02-29 00:00:00",
        "2099-12-31 23:59:59 +0000",
        "12:00 7.4.05",
        "2005-04-07T22:13:13 +2",
        "2005-04-07T22:13:13 +2:30",
        "2005-04-07T22:13:13 -02:3",
        "2005-04-07T22:13:13 -24:30",
        "2005-04-07T22:13:13 -02 05",
        "67768036191676799",
        "67768036191676801",
        "2005-04-07T22:13:13 +02:30",
        "2005-04-07T22:13:13-0700",
        "\n2005-04-07T22:13:13",
        "2005-04-07\n22:13:13",
        "1700000000 +2400",
        "1700000000 -2359",
        "2023-03-26 02:30:00",
        "2023-10-29 02:30:00",
        "Tue 14 Nov 22:13:20 2023 GMT",
        "06/05 10:00 2007",
        "24:00 1 Jan 2001",
        "2005-04-07T2213",
        "2005-04-07T22",
        "2005-04-07T2400",
        "2005-04-07T1260 22:13",
        "2005-04-07T7",
        "2005-04-07 2213",
        "T2213-0100 7 Apr 2005",
        "-0800 1700000000",
        "+05:30 7 Apr 2005 22:13:13",
        "Apr-07-2005 22:13:13",
        "-123456789",
        "-1234567890",
        "127 Apr 2005 22:13:13",
        "Apr 2005 22:13:13 +0200",
    ] {
        for zone in ["UTC", "Europe/Berlin", "America/St_Johns", "EST5EDT", ""] {
            let variables = [name[0], name[1], ("GIT_COMMITTER_DATE", date), ("TZ", zone)];
            let (git, ours) = (place.gits(&variables), place.ours(&variables));
            if git != ours {
                different.push(format!("{date:?} {zone}: git {git:?}, we {ours:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn pieces_of_dates_in_any_order_are_read_as_git_reads_them() {
    const PIECES: [&str; 40] = [
        "2005",
        "7",
        "07",
        "22",
        "31",
        "127",
        "2213",
        "221313",
        "1260",
        "0800",
        "12345",
        "1234567",
        "123456789",
        "1700000000",
        "20050407",
        "22:13",
        "22:13:13",
        "2005-04-07",
        "04/07/05",
        "7.4.2005",
        "Apr",
        "april",
        "Thu",
        "T",
        "Z",
        "EST",
        "PM",
        "am",
        "-",
        "+",
        ".",
        ":",
        "/",
        ",",
        "-0800",
        "+02:30",
        "+05",
        "x",
        "noon",
        "0",
    ];
    let place = Place::new();
    let mut rng = Rng::new(20_050_407);
    let mut different = Vec::new();
    let mut accepted = 0;
    for _ in 0..800 {
        let mut date = ["2005-04-07", "7 Apr 2005 ", "22:13 ", "Apr 05 2005 T", ""][rng.below(5)].to_owned();
        for _ in 0..1 + rng.below(5) {
            date.push_str(PIECES[rng.below(PIECES.len())]);
            date.push_str(["", "", " "][rng.below(3)]);
        }
        let variables = [
            ("GIT_COMMITTER_NAME", "N"),
            ("GIT_COMMITTER_EMAIL", "e"),
            ("GIT_COMMITTER_DATE", &*date),
            ("TZ", "Europe/Berlin"),
        ];
        let (git, ours) = (place.gits(&variables), place.ours(&variables));
        accepted += usize::from(git.is_ok());
        if git != ours {
            different.push(format!("{date:?}: git {git:?}, we {ours:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(accepted > 60, "{accepted}");
}

#[test]
fn the_present_time_is_told_in_the_local_zone() {
    let place = Place::new();
    for zone in ["UTC", ":Asia/Kolkata", "Pacific/Marquesas", "XYZ-3:30", "No/Such/Zone", ""] {
        let variables = [("GIT_COMMITTER_NAME", "N"), ("GIT_COMMITTER_EMAIL", "e"), ("TZ", zone)];
        let (git, ours) = (place.gits(&variables).unwrap(), place.ours(&variables).unwrap());
        let split = |ident: &str| {
            let mut fields = ident.rsplitn(3, ' ').map(str::to_owned);
            (fields.next().unwrap(), fields.next().unwrap().parse::<i64>().unwrap())
        };
        let ((git_offset, git_time), (our_offset, our_time)) = (split(&git), split(&ours));
        assert_eq!(our_offset, git_offset, "{zone}");
        assert!((our_time - git_time).abs() < 60, "{our_time} {git_time}");
    }
}
