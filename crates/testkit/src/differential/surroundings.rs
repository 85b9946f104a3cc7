//! Generates the surroundings of refs: settings from every place that git reads, hooks, very long names, and objects
//! that other tools than git may write.

use super::{Part, plan::GIT_DIR};
use crate::Rng;
use bstr::BString;
use refdb_types::ObjectId;

/// Lines for configuration files of every kind.
const LINES: &[&str] = &[
    "[core]\n\tlogAllRefUpdates = always\n",
    "[core]\n\tlogAllRefUpdates\n",
    "[core] logallrefupdates = false # no\n",
    "[core]\n\tlogAllRefUpdates = \"al\"ways\n",
    "[core]\n\tabbrev = 8\n",
    "[core]\n\tabbrev\n",
    "[core]\n\tabbrev = \n",
    "[core]\r\n\tabbrev = 11\r\n",
    "[core]\n\tabbrev = \\\n 12\n",
    "[core]\n\twarnAmbiguousRefs\n",
    "[core]\n\tcommentChar\n",
    "[core]\n\tsharedRepository\n",
    "[core]\n\tquotePath\n",
    "[core]\n\tfsync\n",
    "[core]\n\tfilesRefLockTimeout = 1k\n",
    "[core]\n\tpackedRefsTimeout\n",
    "[core]\n\thooksPath = hooks2\n",
    "[core]\n\thooksPath = @GIT_DIR@/hooks2\n",
    "[core]\n\thooksPath = /dev/null\n",
    "[core]\n\thooksPath\n",
    "[core]\n\tbare = false\n",
    "[log]\n\tdate = iso\n",
    "[log]\n\tdate\n",
    "[i18n]\n\tlogOutputEncoding = ISO-8859-1\n",
    "[i18n]\n\tlogOutputEncoding\n",
    "[i18n]\n\tcommitEncoding = ISO-8859-1\n",
    "[branch]\n\tsort = -refname\n[tag]\n\tsort = -creatordate\n",
    "[branch]\n\tsort\n",
    "[tag]\n\tsort\n",
    "[versionsort]\n\tsuffix = -rc\n\tsuffix = .1\n",
    "[versionsort]\n\tsuffix\n",
    "[column]\n\tui\n",
    "[color]\n\tui\n",
    "[color]\n\tbranch\n",
    "[transfer]\n\thideRefs = refs/heads/a\n",
    "[reftable]\n\tblockSize = 512\n",
    "[reftable]\n\tblockSize = 1k\n",
    "[reftable]\n\tblockSize\n",
    "[reftable]\n\trestartInterval = 1\n\tindexObjects = false\n",
    "[reftable]\n\tgeometricFactor = 0\n",
    "[gc]\n\treflogExpire = 2.weeks\n",
    "[gc]\n\treflogExpire\n",
    "[gc \"refs/heads/*\"]\n\treflogExpire = now\n",
    "[gc \"refs/heads/*\"]\n\treflogExpireUnreachable\n",
    "[user]\n\tname = Some One\n\temail = some@one\n",
    "[user]\n\tname\n",
    "[committer]\n\tname = <Odd> Name.\n\temail =  a b @c \n",
    "[committer]\n\temail\n",
    "[user]\n\tuseConfigOnly = true\n",
    "[safe]\n\tdirectory = *\n",
    "[safe]\n\tdirectory = *\n\tdirectory =\n",
    "[safe]\n\tdirectory\n",
    "[safe]\n\tdirectory = @GIT_DIR@\n",
    "[safe]\n\tdirectory = @GIT_DIR@/..\n",
    "[safe]\n\tdirectory = @GIT_DIR@/*\n",
    "[safe]\n\tdirectory = /*\n",
    "[safe]\n\tdirectory = .\n",
    "[safe]\n\tdirectory = ~/x\n",
    "[safe]\n\tbareRepository = explicit\n",
    "[safe]\n\tbareRepository = bogus\n",
    "[push]\n\tdefault\n",
    "[push]\n\tdefault = upstream\n",
    "[remote]\n\tpushDefault\n",
    "[remote]\n\tpushDefault = other\n",
    "[remote \"origin\"]\n\turl\n",
    "[remote \"origin\"]\n\turl = /nowhere\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
    "[remote \"other\"]\n\turl = /other\n\tpush = refs/heads/*:refs/heads/x/*\n\tfetch = refs/heads/*:refs/o/*\n",
    "[remote \"other\"]\n\tmirror\n",
    "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/a\n",
    "[branch \"main\"]\n\tremote\n",
    "[branch \"main\"]\n\tmerge\n",
    "[branch \"main\"]\n\tpushRemote = other\n",
    "[branch.main]\n\tremote = other\n\tmerge = refs/heads/main\n",
    "[trailer]\n\tseparators = :#\n",
    "[trailer \"key\"]\n\tkey = \"Key: \"\n",
    "[advice]\n\tignoredHook = false\n",
    "[fsck]\n\tbadRefName = warn\n",
    "[extensions]\n\tworktreeConfig = true\n",
    "[extensions]\n\tunknown\n",
    "[mailmap]\n\tfile\n",
    "[gc]\n\tauto\n",
    "; a comment\n# another\n\n",
    "[hook \"one\"]\n\tevent = reference-transaction\n\tcommand = echo one >>$CALLS; cat >>$CALLS\n",
    "[hook \"two\"]\n\tevent = reference-transaction\n\tcommand = exit 1\n\tenabled = false\n",
    "[hook \"three\"]\n\tevent = reference-transaction\n",
    "[hook \"one\"]\n\tenabled = false\n",
    "[hook \"one\"]\n\tevent =\n",
    "[hook \"three\"]\n\tevent = update\n\tenabled = false\n",
    "[hook]\n\tjobs = x\n[hook \"one\"]\n\tparallel = x\n",
    "[hook \"one\"]\n\tjobs = 2\n",
];

/// Malformed lines, at which a git that reads the file fails.
const MALFORMED: &[&str] = &["[core\n", "[a]\n\tb = \"c\n", "[a]\n\t1 = 2\n", "x y\n", "[a \"b]\n", "[a]\n\tb = \\q\n"];

/// Conditions of `includeIf`, some of which are true.
const CONDITIONS: &[&str] = &[
    "gitdir:@GIT_DIR@",
    "gitdir:@GIT_DIR@/",
    "gitdir:repo/",
    "gitdir:.git/",
    "gitdir:**/.git",
    "gitdir:/nowhere/",
    "gitdir/i:REPO/",
    "gitdir:./",
    "gitdir:~/",
    "gitdir:",
    "onbranch:main",
    "onbranch:a/",
    "onbranch:**",
    "hasconfig:remote.*.url:/nowhere",
    "hasconfig:remote.*.url:/no**",
    "hasconfig:branch.main.remote:origin",
    "nothing:x",
];

/// Reference-transaction hooks.
const HOOKS: &[&str] = &[
    "#!/bin/sh\n{ echo \"$@\"; cat; } >>\"$CALLS\"\n",
    "#!/bin/sh\n{ echo \"$@\"; cat; } >>\"$CALLS\"\n",
    "#!/bin/sh\n{ echo \"$@ $GIT_REFLOG_ACTION\"; pwd; } >>\"$CALLS\"\n",
    "#!/bin/sh\ntest \"$1\" != prepared\n",
    "#!/bin/sh\ntest \"$1\" != preparing\n",
    "#!/bin/sh\n! grep -q refs/heads/a\n",
    "#!/bin/sh\necho said; echo erred >&2; cat >/dev/null\n",
    "#!/bin/sh\nexit 0\n",
    "#!/bin/sh\ntest \"$1\" != committed && test \"$1\" != aborted\n",
    "#!/no/such/program\n",
    "#!/bin/sh\nkill -9 $$\n",
];

fn lines(rng: &mut Rng, most: usize) -> BString {
    let mut text = BString::default();
    for _ in 0..1 + rng.below(most) {
        text.extend_from_slice(rng.pick(LINES).as_bytes());
    }
    if rng.one_in(40) {
        text.extend_from_slice(rng.pick(MALFORMED).as_bytes());
    }
    text
}

/// Adds settings and hooks to a repository.
pub(super) fn parts(rng: &mut Rng, parts: &mut Vec<Part>) {
    for name in ["global", "system", "extra", "home/.gitconfig", "xdg/git/config", "config.worktree"] {
        if rng.one_in(2) {
            parts.push(Part::File(name.into(), lines(rng, 3)));
        }
    }
    if rng.one_in(2) {
        parts.push(Part::RawConfig(lines(rng, 3)));
    }
    if rng.one_in(2) {
        let path = *rng.pick(&["extra", "extra", "./extra", "@GIT_DIR@/extra", "~/.gitconfig", "missing", ""]);
        let section = match rng.below(3) {
            0 => "include".to_owned(),
            _ => format!("includeIf \"{}\"", rng.pick(CONDITIONS)),
        };
        parts.push(Part::RawConfig(format!("[{section}]\n\tpath = {path}\n").into()));
        if rng.one_in(30) {
            parts.push(Part::File("extra".into(), "[include]\n\tpath = extra\n".into()));
        }
    }
    if rng.one_in(2) {
        let folder = if rng.one_in(4) { "hooks2" } else { "hooks" };
        let (path, hook) = (format!("{folder}/reference-transaction").into(), (*rng.pick(HOOKS)).into());
        parts.push(if rng.one_in(10) { Part::File(path, hook) } else { Part::Program(path, hook) });
    }
}

/// Generates changes to the environment, mostly of settings, people and times.
pub(super) fn environment(rng: &mut Rng) -> Vec<BString> {
    let mut words: Vec<String> = Vec::new();
    if rng.one_in(2) {
        return Vec::new();
    }
    for _ in 0..1 + rng.below(2) {
        match rng.below(14) {
            0 => words.push(format!("GIT_CONFIG_GLOBAL={GIT_DIR}/{}", rng.pick(&["global", "none"]))),
            1 => words.extend(["GIT_CONFIG_NOSYSTEM=0".into(), format!("GIT_CONFIG_SYSTEM={GIT_DIR}/system")]),
            2 => words.extend(["GIT_CONFIG_GLOBAL".into(), format!("HOME={GIT_DIR}/home")]),
            3 => words.extend(["GIT_CONFIG_GLOBAL".into(), format!("XDG_CONFIG_HOME={GIT_DIR}/xdg")]),
            4 | 5 => words.extend(counted(rng)),
            6 => words.push(format!("GIT_CONFIG_PARAMETERS={}", rng.pick(PARAMETERS))),
            7 => words.push("GIT_TEST_ASSUME_DIFFERENT_OWNER=1".into()),
            8 => words.push((*rng.pick(DATES)).into()),
            9 => words.push((*rng.pick(&["TZ=Europe/Berlin", "TZ=America/St_Johns", "TZ=<+0530>-5:30", "TZ="])).into()),
            10 => words.extend(["GIT_COMMITTER_NAME".into(), "GIT_COMMITTER_EMAIL".into(), "EMAIL=e@mail".into()]),
            11 => words.push((*rng.pick(PEOPLE)).into()),
            12 => words.push((*rng.pick(&["GIT_DIR=@GIT_DIR@", "GIT_NAMESPACE=x", "GIT_REFLOG_ACTION=why"])).into()),
            _ => words.push((*rng.pick(&["GIT_CONFIG=@GIT_DIR@/extra", "GIT_NO_REPLACE_OBJECTS=1"])).into()),
        }
    }
    words.into_iter().map(BString::from).collect()
}

const PARAMETERS: &[&str] = &[
    "'core.abbrev=9'",
    "'core.abbrev'='9'",
    "'core.abbrev'=",
    "'core.abbrev'",
    "'core.logallrefupdates'",
    "  'core.abbrev=9'   'log.date=iso'",
    "'core.abbrev'='1''0'",
    "'core.abbrev'='1'\\''0'",
    "core.abbrev=9",
    "'core.abbrev=9",
    "'core.abbrev''9'",
    "'abbrev'='9'",
    "''",
    "'safe.directory=*'",
    "'safe.directory'='*'",
    "'include.path=extra'",
    "'include.path=@GIT_DIR@/extra'",
    "'includeIf.onbranch:main.path'='@GIT_DIR@/extra'",
    "'branch.sort'='-refname'",
    "'branch.a=b.sort'='x'",
];

const DATES: &[&str] = &[
    "GIT_COMMITTER_DATE=@0 +0000",
    "GIT_COMMITTER_DATE=1 +0000",
    "GIT_COMMITTER_DATE=2005-04-07T22:13:13+05:18",
    "GIT_COMMITTER_DATE=@99999999999 +0000",
    "GIT_COMMITTER_DATE=@18446744073709551615 +0000",
    "GIT_COMMITTER_DATE=-1 +0000",
    "GIT_COMMITTER_DATE=bogus",
    "GIT_COMMITTER_DATE=1700000000 -0000",
    "GIT_COMMITTER_DATE=1700000000 +9999",
    "GIT_COMMITTER_DATE=Thu, 07 Apr 2005 22:13:13 +0200",
    "GIT_COMMITTER_DATE=2005-04-07 22:13:13",
    "GIT_COMMITTER_DATE=",
    "GIT_COMMITTER_DATE",
];

const PEOPLE: &[&str] = &[
    "GIT_COMMITTER_NAME=",
    "GIT_COMMITTER_NAME=<>",
    "GIT_COMMITTER_NAME= ,x\n<y>. ",
    "GIT_COMMITTER_EMAIL=",
    "GIT_COMMITTER_EMAIL=a <b>",
    "GIT_COMMITTER_NAME=\u{fc}",
];

/// Generates settings in numbered environment variables.
fn counted(rng: &mut Rng) -> Vec<String> {
    const SETTINGS: &[(&str, &str)] = &[
        ("core.abbrev", "7"),
        ("core.abbrev", ""),
        ("core.logAllRefUpdates", "always"),
        ("core.hooksPath", "@GIT_DIR@/hooks2"),
        ("safe.directory", "*"),
        ("safe.directory", ""),
        ("safe.directory", "@GIT_DIR@"),
        ("safe.bareRepository", "explicit"),
        ("include.path", "@GIT_DIR@/extra"),
        ("include.path", "extra"),
        ("branch.sort", "-refname"),
        ("log.date", "iso"),
        ("reftable.blockSize", "256"),
        ("nodot", "x"),
        ("", "x"),
        ("a.b c.d", "x"),
        ("core.1x", "x"),
        ("user.name", "Count"),
        ("hook.one.event", "reference-transaction"),
        ("hook.one.command", "echo counted >>$CALLS"),
    ];
    let count = 1 + rng.below(2);
    let said = match rng.below(12) {
        0 => *rng.pick(&["x", "-1", "", "99999999999", "3", "1x", " 1", "+1", "0"]),
        _ => ["0", "1", "2"][count],
    };
    let mut words = vec![format!("GIT_CONFIG_COUNT={said}")];
    for at in 0..count {
        let (key, value) = *rng.pick(SETTINGS);
        words.push(format!("GIT_CONFIG_KEY_{at}={key}"));
        words.extend((!rng.one_in(25)).then(|| format!("GIT_CONFIG_VALUE_{at}={value}")));
    }
    words
}

/// Generates a name of about the length from which it no longer fits into the index of a table, for one of
/// four block sizes.
pub(super) fn long_name(rng: &mut Rng) -> BString {
    let block = *rng.pick(&[256, 512, 1024, 4096]);
    let length = block / 2 - 28 + rng.below(30);
    let mut name = BString::from(format!("refs/heads/{}", rng.below(10)));
    while name.len() < length {
        let component = (length - name.len()).min(200);
        name.push(b'/');
        name.extend(std::iter::repeat_n(b'n', component.max(2) - 1));
    }
    name
}

/// Generates the content of a commit as a tool other than git may write it.
pub(super) fn commit(rng: &mut Rng, tree: ObjectId, parent: ObjectId) -> Vec<u8> {
    let mut text = format!("tree {tree}\nparent {parent}\n").into_bytes();
    text.extend(format!("author {} {}\n", rng.pick(IDENTS), time(rng)).bytes());
    text.extend(format!("committer {} {}\n", rng.pick(IDENTS), time(rng)).bytes());
    text.extend_from_slice(rng.pick::<&[u8]>(HEADERS));
    message(rng, &mut text);
    text
}

/// Generates the content of a tag as a tool other than git may write it.
pub(super) fn tag(rng: &mut Rng, object: ObjectId) -> Vec<u8> {
    let name = rng.pick(&["v1", "odd name", "", "\u{fc}"]);
    let mut text = format!("object {object}\ntype commit\ntag {name}\n").into_bytes();
    if !rng.one_in(8) {
        text.extend(format!("tagger {} {}\n", rng.pick(IDENTS), time(rng)).bytes());
    }
    message(rng, &mut text);
    text
}

const IDENTS: &[&str] =
    &["A <a@b>", "A <a@b>", "\u{fc} <\u{fc}@b>", "<a@b>", "A B  <>", "A <a <b>", " A  < a@b >", "A a@b", "A <a@b> x"];

const HEADERS: &[&[u8]] = &[
    b"",
    b"",
    b"",
    b"encoding ISO-8859-1\n",
    b"encoding UTF-8\n",
    b"encoding UTF-16\n",
    b"encoding bogus\n",
    b"encoding\n",
    b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n none\n -----END PGP SIGNATURE-----\n",
    b"mergetag object 0\n type commit\n\n",
    b"x y\n",
];

fn time(rng: &mut Rng) -> String {
    let time = rng.pick(&[
        "1700000000",
        "1690000000",
        "0",
        "1",
        "4102444799",
        "-1",
        "-1700000000",
        "+1700000000",
        "1e9",
        "",
        "x",
    ]);
    let zone = rng.pick(&["+0000", "-0000", "+0530", "-0800", "+9999", "+051800", "+530", "+05:30", "--700", "Z", ""]);
    format!("{time} {zone}")
}

fn message(rng: &mut Rng, text: &mut Vec<u8>) {
    const PARTS: &[&[u8]] = &[
        b"Subject\n",
        b"second line\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"a line\r\n",
        b"\0",
        b"\xfc\n",
        b"\xc3\xbc\n",
        b"Key: value\n",
        b"Key: folded\n value\n",
        b"Signed-off-by: A <a@b>\n",
        b"Fixes #12\n",
        b"(cherry picked from commit 1)\n",
        b"---\n",
        b"-----BEGIN PGP SIGNATURE-----\n\nnone\n-----END PGP SIGNATURE-----\n",
        b"-----BEGIN SSH SIGNATURE-----\n",
        b"  indented",
        b"without an end",
    ];
    let blank: &[u8] = if rng.one_in(20) { b"" } else { b"\n" };
    text.extend_from_slice(blank);
    if rng.one_in(2) {
        text.extend_from_slice(b"Subject\n\n");
    }
    for _ in 0..rng.below(6) {
        text.extend_from_slice(rng.pick::<&[u8]>(PARTS));
    }
}
