use super::vocabulary::Vocabulary;
use crate::Rng;
use bstr::BString;

/// Fields, and the forms that may follow each after a colon.
const FIELDS: &[(&str, &[&str])] = &[
    ("refname", NAME_FORMS),
    ("symref", NAME_FORMS),
    ("upstream", COUNTERPART_FORMS),
    ("push", COUNTERPART_FORMS),
    ("HEAD", &["", "x"]),
    ("flag", &["", "x"]),
    ("worktreepath", &["", "x"]),
    ("objectname", &["", "short", "short=6", "short=0", "x"]),
    ("objecttype", &["", "x"]),
    ("objectsize", &["", "disk", "x"]),
    ("deltabase", &["", "x"]),
    ("tree", &["", "short", "short=12", "x"]),
    ("parent", &["", "short"]),
    ("numparent", &["", "x"]),
    ("object", &["", "x"]),
    ("type", &["", "x"]),
    ("tag", &["", "x"]),
    ("author", &["", "x"]),
    ("authorname", &["", "mailmap", "x"]),
    ("authoremail", &["", "trim", "localpart", "trim,localpart", "mailmap", "mailmap,trim", "x", "trim,"]),
    ("authordate", DATES),
    ("committer", &["", "x"]),
    ("committername", &[""]),
    ("committeremail", &["", "trim"]),
    ("committerdate", DATES),
    ("tagger", &["", "x"]),
    ("taggername", &[""]),
    ("taggeremail", &["", "localpart"]),
    ("taggerdate", DATES),
    ("creator", &["", "x"]),
    ("creatordate", DATES),
    ("subject", &["", "sanitize", "x"]),
    ("body", &["", "x"]),
    ("contents", &["", "size", "subject", "body", "signature", "lines=1", "lines=3", "trailers:only", "lines=x", "x"]),
    ("trailers", &["", "only", "key=a", "unfold,separator=|", "valueonly", "key", "x"]),
    ("describe", &["", "tags", "abbrev=5,match=v*", "x"]),
    ("signature", &["", "grade", "x"]),
    ("raw", &["", "size", "x"]),
    ("ahead-behind", &["main", "HEAD", "nothing", "", "refs/tags/v1"]),
    ("color", &["red", "bold blue", "", "normal", "reset", "x", "auto,red"]),
    ("is-base", &["main", "HEAD", "nothing", ""]),
    ("rest", &["", "x"]),
    ("nothing", &["", "x"]),
    ("", &["", "x"]),
    (" refname", &[""]),
];

/// The number of fields at the end of the list that are wrong or rare.
const RARE: usize = 5;

const NAME_FORMS: &[&str] = &[
    "",
    "",
    "short",
    "lstrip=1",
    "lstrip=-1",
    "rstrip=1",
    "rstrip=-2",
    "strip=2",
    "lstrip=x",
    "x",
    "lstrip=9",
    "rstrip=",
];
const COUNTERPART_FORMS: &[&str] =
    &["", "short", "track", "trackshort", "track,nobracket", "remotename", "remoteref", "lstrip=1", "x", "track,x"];
const DATES: &[&str] = &[
    "",
    "short",
    "iso",
    "iso-strict",
    "rfc",
    "raw",
    "unix",
    "relative",
    "human",
    "local",
    "format:%Y-%m-%d",
    "iso-local",
    "x",
    "default",
];

const OPTIONS: &[&str] = &[
    "--include-root-refs",
    "--ignore-case",
    "--omit-empty",
    "--count=2",
    "--count=0",
    "--count=-1",
    "--count=x",
    "--shell",
    "--perl",
    "--python",
    "--tcl",
    "--color",
    "--color=never",
    "--color=auto",
    "--color=x",
    "--no-points-at",
];

/// Generates the arguments and the input of `for-each-ref`.
pub(super) fn random(rng: &mut Rng, words: &Vocabulary<'_>) -> (Vec<BString>, Vec<BString>) {
    let mut line: Vec<BString> = Vec::new();
    for option in OPTIONS {
        if rng.one_in(22) {
            line.push((*option).into());
        }
    }
    if !rng.one_in(5) {
        line.push([&b"--format="[..], &format(rng, 0)].concat().into());
    }
    while rng.one_in(3) {
        let key = format!(
            "--sort={}{}{}",
            rng.pick(&["", "-", ""]),
            rng.pick(&["", "version:", "v:", "", "*", ""]),
            atom(rng)
        );
        line.push(key.into());
    }
    for option in ["--points-at", "--contains", "--no-contains", "--merged", "--no-merged"] {
        if rng.one_in(14) {
            let value = words.revision(rng);
            if rng.one_in(8) {
                line.push(option.into());
            } else {
                line.push([option.as_bytes(), b"=", &value].concat().into());
            }
        }
    }
    if rng.one_in(10) {
        line.push([&b"--exclude="[..], &words.pattern(rng)].concat().into());
    }
    if rng.one_in(14) {
        line.push([&b"--start-after="[..], &words.name(rng)].concat().into());
    }
    rng.shuffle(&mut line);
    if rng.one_in(20) {
        line.push("--stdin".into());
        return (line, (0..rng.below(3)).map(|_| [&words.pattern(rng)[..], b"\n"].concat().into()).collect());
    }
    if rng.one_in(2) {
        line.extend((0..rng.below(3)).map(|_| words.pattern(rng)));
    }
    (line, Vec::new())
}

/// Generates a field, which usually exists.
fn atom(rng: &mut Rng) -> String {
    let known = if rng.one_in(12) { FIELDS.len() } else { FIELDS.len() - RARE };
    let (name, forms) = FIELDS[rng.below(known)];
    // The first two forms are the most frequent; the first is valid if the field is.
    let form = if rng.one_in(3) { *rng.pick(forms) } else { forms[rng.below(forms.len().min(2))] };
    let star = if rng.one_in(10) { "*" } else { "" };
    match form {
        "" if !rng.one_in(30) => format!("{star}{name}"),
        form => format!("{star}{name}:{form}"),
    }
}

/// Generates a format. `depth` is the number of conditions and alignments that enclose it.
pub(super) fn format(rng: &mut Rng, depth: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..1 + rng.below(4) {
        match rng.below(24) {
            0..16 => text.extend(format!("%({})", atom(rng)).bytes()),
            16 => text.extend(rng.pick(&["%%", "%41", "%zz", "%", "%0a", "%00", "'", "\""]).bytes()),
            17..19 if depth < 3 => {
                let test = rng.pick(&["", "", ":equals=commit", ":notequals=refs/heads/main", ":equals=", ":x"]);
                text.extend(format!("%(if{test})").bytes());
                text.extend(format(rng, depth + 1));
                text.extend(b"%(then)");
                text.extend(format(rng, depth + 1));
                if rng.one_in(2) {
                    text.extend(b"%(else)");
                    text.extend(format(rng, depth + 1));
                }
                text.extend(b"%(end)");
            }
            19..21 if depth < 3 => {
                let how = rng.pick(&[
                    "9",
                    "20,right",
                    "width=12,position=middle",
                    "left,30",
                    "x",
                    "",
                    "0",
                    "position=x,3",
                    "-3",
                ]);
                text.extend(format!("%(align:{how})").bytes());
                text.extend(format(rng, depth + 1));
                text.extend(b"%(end)");
            }
            21 if rng.one_in(4) => {
                text.extend(rng.pick(&["%(end)", "%(then)", "%(else)", "%(if)", "%(align)", "%(", "%()"]).bytes())
            }
            _ => text.extend(rng.pick(&[" ", "|", "x", "\u{fc}", "-"]).bytes()),
        }
    }
    text
}
