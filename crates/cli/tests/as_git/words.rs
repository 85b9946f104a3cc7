//! Numbers, abbreviated options and date formats as users get them wrong.

use crate::common::same;
use refdb_testkit::{RefFormat, Repo};
use refdb_types::HashKind;

fn repo() -> Repo {
    let repo = Repo::with_worktree(RefFormat::Files, HashKind::Sha1);
    let commits = repo.commits(2);
    repo.create_refs([("refs/heads/main", commits[1]), ("refs/heads/a/b/c", commits[0])]);
    repo
}

const NUMBERS: &[&str] = &[
    "99999999999",
    "99999999999999999999999",
    "-99999999999999999999999",
    "2147483647",
    "2147483648",
    "4294967297",
    "-1",
    "0x10",
    "0x",
    "010",
    "08",
    " 5",
    "5 ",
    "+3",
    "1k",
    "-1k",
    "3g",
    "1kk",
    "x",
    " ",
    "",
];

#[test]
fn numbers_are_read_as_git_reads_them() {
    let repo = repo();
    for number in NUMBERS {
        same(repo.dir(), &["for-each-ref", &format!("--count={number}")], b"");
        same(repo.dir(), &["for-each-ref", "--count", number], b"");
        same(repo.dir(), &["show-ref", &format!("--abbrev={number}")], b"");
        same(repo.dir(), &["show-ref", &format!("--hash={number}")], b"");
        // Where git reads an unsigned number, it shows a default for this one, because it does not fit an `int`.
        if *number == "2147483648" {
            continue;
        }
        let fields = ["refname:lstrip=", "refname:strip=", "refname:rstrip=", "objectname:short=", "contents:lines="];
        for field in fields {
            same(repo.dir(), &["for-each-ref", &format!("--format=%({field}{number})")], b"");
        }
    }
    // A width that fits an `int` is padded in full, so huge ones are left out.
    for number in NUMBERS.iter().filter(|number| !number.starts_with("21474836")) {
        for lead in ["", "width=", "right,", "position=right,"] {
            same(repo.dir(), &["for-each-ref", &format!("--format=%(align:{lead}{number})x%(end)")], b"");
        }
    }
}

#[test]
fn shortened_options_are_understood_as_git_understands_them() {
    let repo = repo();
    let tried: &[(&str, &[&str])] = &[
        ("for-each-ref", &["--co=1", "--cou=1", "--co", "--no-", "--no", "--no-c", "--", "--=", "--=x", "--s=refname"]),
        ("show-ref", &["--hea=1", "--no-", "--=", "--d", "--ab=9", "--has=9", "--t=1"]),
        ("pack-refs", &["--a", "--i=x"]),
        ("update-ref", &["--no-", "--=", "--c=1", "--st=1"]),
        ("symbolic-ref", &["--no-", "--=", "--s=1", "--r=1"]),
    ];
    for (command, options) in tried {
        for option in *options {
            same(repo.dir(), &[*command, *option, "HEAD"], b"");
        }
    }
}

#[test]
fn dates_have_the_forms_of_the_c_library() {
    let repo = repo();
    for form in [
        "%q", "%Q", "%N", "%f", "%#Z", "%^Z", "%Z", "%z", "%E", "%Ey", "%Od", "%k", "%-d", "%_d", "%0e", "%^a", "%+",
        "%", "%%", "%", "%n", "%P", "%G-%V", "%U", "%C", "%10Y", "%s", "",
    ] {
        for local in ["", "-local"] {
            let format = format!("--format=[%(creatordate:format{local}:{form})]");
            same(repo.dir(), &["for-each-ref", &format], b"");
        }
    }
}

#[test]
fn a_name_that_several_fields_ask_for_is_warned_of_once_for_each_field() {
    let repo = repo();
    repo.create_refs([("refs/tags/main", repo.commits(1)[0])]);
    for words in [
        &["--format=%(ahead-behind:main)%(ahead-behind:main)"][..],
        &["--sort=ahead-behind:main", "--format=%(ahead-behind:main)"],
        &["--sort=ahead-behind:main", "--sort=-ahead-behind:main"],
        &["--format=%(ahead-behind:main)%(*ahead-behind:main)%(ahead-behind:heads/main)"],
    ] {
        same(repo.dir(), &[&["for-each-ref"], words].concat(), b"");
    }
}
