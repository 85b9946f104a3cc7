use super::*;

static SAMPLE: Command = Command {
    program: "git",
    name: "sample",
    about: "a command for tests",
    synopsis: &["[<options>] <ref>", "--stdin"],
    options: &[
        Opt::letter("m", "why").takes(Value::Required("reason")),
        Opt::letter("d", "delete"),
        Opt::flag("no-deref", "the ref itself"),
        Opt::flag("stdin", "read commands"),
        Opt::flag("start-after", "marker").takes(Value::Required("marker")),
        Opt::flag("hash", "ids only").short(b's').takes(Value::Optional("n")),
        Opt::flag("contains", "commits").takes(Value::UnlessLast("commit")).fixed(),
        Opt::flag("secret", "not shown").hidden(),
    ],
};

/// Parses the words, and returns each as text: `name`, `off:name` if negated, `name=value` or `(argument)`, and the
/// message of a failure.
fn parse(words: &[&str]) -> Vec<String> {
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    let mut parser = Parser::new(&SAMPLE, &words);
    let mut seen = Vec::new();
    loop {
        match parser.next_word() {
            Ok(None) => return seen,
            Ok(Some(Word::Argument(argument))) => seen.push(format!("({argument})")),
            Ok(Some(Word::Option(opt, Setting::On))) => seen.push(opt.name.to_owned()),
            Ok(Some(Word::Option(opt, Setting::Off))) => seen.push(format!("off:{}", opt.name)),
            Ok(Some(Word::Option(opt, Setting::Value(value)))) => seen.push(format!("{}={value}", opt.name)),
            Err(failure) => {
                seen.push(match failure {
                    Failure::Error(message, code) => format!("{message} {code}"),
                    Failure::Usage(message, usage) => {
                        assert_eq!(usage, SAMPLE.usage(Asked::Short));
                        format!("{} usage", message.unwrap_or_default())
                    }
                    Failure::UsageAsked(message, usage) => {
                        let asked = if usage == SAMPLE.usage(Asked::Full) { Asked::Full } else { Asked::Short };
                        format!("{} {asked:?}", message.unwrap_or_default())
                    }
                    other => format!("{other:?}"),
                });
                return seen;
            }
        }
    }
}

#[test]
fn values_come_stuck_after_an_equals_sign_or_as_the_next_word() {
    assert_eq!(parse(&["-m", "x", "-mx", "-dm", "x"]), ["m=x", "m=x", "d", "m=x"]);
    assert_eq!(parse(&["--start-after=x", "--start-after", "-x"]), ["start-after=x", "start-after=-x"]);
    assert_eq!(
        parse(&["-s5", "-s", "5", "--hash=5", "--hash", "5"]),
        ["hash=5", "hash", "(5)", "hash=5", "hash", "(5)"]
    );
    assert_eq!(parse(&["--contains", "x", "--contains"]), ["contains=x", "contains"]);
}

#[test]
fn options_may_follow_arguments_until_two_dashes() {
    assert_eq!(parse(&["a", "-d", "-", "--", "-d", "--"]), ["(a)", "d", "(-)", "(-d)", "(--)"]);
    assert_eq!(parse(&["--end-of-options", "--stdin"]), ["(--stdin)"]);
}

#[test]
fn long_names_can_be_shortened_and_negated() {
    assert_eq!(parse(&["--std", "--no-std", "--no-stdin"]), ["stdin", "off:stdin", "off:stdin"]);
    assert_eq!(
        parse(&["--no-deref", "--deref", "--no-de", "--de"]),
        ["no-deref", "off:no-deref", "no-deref", "off:no-deref"]
    );
    assert_eq!(parse(&["--no-hash"]), ["off:hash"]);
}

#[test]
fn mistakes_are_reported_in_gits_words() {
    for (words, expected) in [
        (&["--foo"][..], "unknown option `foo' usage"),
        (&["--foo=1"], "unknown option `foo=1' usage"),
        (&["-dX"], "unknown switch `X' usage"),
        (&["-m"], "switch `m' requires a value 129"),
        (&["--start-after"], "option `start-after' requires a value 129"),
        (&["--stdin=1"], "option `stdin' takes no value 129"),
        (&["--no-stdin=1"], "option `no-stdin' takes no value 129"),
        (&["--no-contains"], "unknown option `no-contains' usage"),
        (&["--st"], "ambiguous option: st (could be --stdin or --start-after) Short"),
        (&["--no-s"], "ambiguous option: no-s (could be --no-hash or --no-secret) Short"),
        (&["-con"], "did you mean `--con` (with two dashes)? 129"),
        (&["-no-x"], "did you mean `--no-x` (with two dashes)? 129"),
        (&["-h"], " Short"),
        (&["--help-all"], " Full"),
    ] {
        let seen = parse(words);
        if words[0] == "--no-s" {
            assert!(seen.last().unwrap().starts_with("ambiguous option: no-s (could be --no-"), "{seen:?}");
        } else {
            assert_eq!(seen.last().unwrap(), expected, "{words:?}");
        }
    }
}

#[test]
fn the_usage_has_gits_layout() {
    let expected = "\
usage: git sample [<options>] <ref>
   or: git sample --stdin

    -m <reason>           why
    -d                    delete
    --no-deref            the ref itself
    --deref               opposite of --no-deref
    --[no-]stdin          read commands
    --[no-]start-after <marker>
                          marker
    -s, --[no-]hash[=<n>] ids only
    --contains <commit>   commits

";
    assert_eq!(SAMPLE.usage(Asked::Short), expected);
    assert!(SAMPLE.usage(Asked::Full).contains("--[no-]secret         not shown\n"));
}
