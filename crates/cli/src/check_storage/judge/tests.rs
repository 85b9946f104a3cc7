use super::*;

/// Parses a history. Each operation is `CLIENT BEGUN-ENDED r VALUE` or `CLIENT BEGUN-ENDED OLD>NEW`; the clients 0 and
/// 1 are on host 0, and 2 and 3 on host 1. An operation without an end has an unknown outcome.
fn history(lines: &str) -> Vec<Operation> {
    let operation = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let client: usize = words[0].parse().unwrap();
        let (begun, ended) = words[1].split_once('-').unwrap();
        let what = match words[2].split_once('>') {
            Some((old, new)) => What::Write { old: old.parse().unwrap(), new: new.parse().unwrap() },
            None => What::Read(words[3].parse().unwrap()),
        };
        Operation { host: client / 2, client, what, begun: begun.parse().unwrap(), ended: ended.parse().ok() }
    };
    lines.split(',').map(operation).collect()
}

fn judged(lines: &str) -> Result<(), Fault> {
    judge(&history(lines))
}

#[test]
fn what_one_machine_would_show_is_right() {
    for lines in [
        "0 1-2 0>1, 2 3-4 r 1, 2 5-6 1>2, 0 7-8 r 2",
        // A read that overlaps a write may see the value before or after it.
        "0 1-2 0>1, 0 3-9 1>2, 2 4-5 r 1, 2 6-7 r 2, 3 8-10 r 2",
        // The ref is deleted, and created again.
        "0 1-2 0>1, 2 3-4 1>0, 0 5-6 r 0, 0 7-8 0>2, 2 9-10 r 2, 2 11-12 2>0, 0 13-14 r 0",
        // Two writes have an unknown outcome, and one of them was carried out in the end.
        "0 1-2 0>1, 0 3-? 1>2, 2 4-? 1>3, 1 10-11 r 1, 1 12-13 r 3, 1 14-15 3>4, 3 16-17 r 4",
        // The acknowledgements come in another order than the writes.
        "0 1-20 0>1, 1 2-10 1>2, 2 3-5 2>3, 3 21-22 r 3",
    ] {
        assert_eq!(judged(lines), Ok(()), "{lines}");
    }
}

#[test]
fn a_lost_update_is_refused() {
    let lost = |lines: &str| assert!(matches!(judged(lines), Err(Fault::Lost { .. })), "{lines}: {:?}", judged(lines));
    // Two writes replace the same value; two create the ref; two replace a later value.
    lost("0 1-2 0>1, 0 3-4 1>2, 2 5-6 1>3");
    lost("0 1-5 0>1, 2 2-6 0>2");
    lost("0 1-2 0>1, 0 3-4 1>2, 0 5-6 2>3, 2 7-8 2>4");
    // The last value is an older one, even as the host of the last writer sees it.
    lost("0 1-2 0>1, 2 3-4 1>2, 3 5-6 r 1");
    // A write replaces a value that was never there, as after a write that was refused and carried out nevertheless.
    lost("0 1-2 0>1, 2 3-4 9>2");
}

#[test]
fn a_deleted_ref_that_comes_back_is_refused() {
    assert!(matches!(judged("0 1-2 0>1, 2 3-4 1>0, 2 9-10 r 1"), Err(Fault::Lost { host: 1, .. })));
    assert!(matches!(judged("0 1-2 0>1, 2 3-4 1>0, 0 9-10 1>2, 0 11-12 r 2"), Err(Fault::Lost { host: 0, .. })));
    // If only another host sees the value, that host is late.
    let by = Duration::from_nanos(5);
    assert_eq!(judged("0 1-2 0>1, 2 3-4 1>0, 0 9-10 r 1, 2 11-12 r 0"), Err(Fault::Late { host: 0, value: 1, by }));
}

#[test]
fn a_read_of_what_was_replaced_before_it_began_is_late() {
    let by = Duration::from_nanos(6);
    assert_eq!(judged("0 1-2 0>1, 0 3-4 1>2, 2 10-11 r 1, 0 12-13 r 2"), Err(Fault::Late { host: 1, value: 1, by }));
    let late = history("0 1-2 0>1, 0 3-4 1>2, 2 10-11 r 1, 3 7-8 r 1, 0 12-13 r 2, 0 14-15 r 1");
    assert_eq!(lateness(&late, 1), (by, 2));
    assert_eq!(lateness(&late, 0), (Duration::from_nanos(10), 1));
    // A read that does not see a ref which was created is refused too, although not as late.
    assert_eq!(judged("0 1-2 0>1, 2 3-4 r 0, 0 5-6 r 1"), Err(Fault::Wrong { host: 1, value: 0 }));
    // A write has taken effect even before it is acknowledged, once a client has read its value.
    assert!(judged("0 1-2 0>1, 0 3-20 1>2, 1 4-5 r 2, 2 6-7 r 1, 0 21-22 r 2").is_err());
}

#[test]
fn a_client_that_goes_back_is_told_apart() {
    let lines = "0 1-2 0>1, 0 3-4 1>2, 2 5-6 r 2, 2 7-8 r 1, 0 9-10 r 2";
    assert_eq!(judged(lines), Err(Fault::Back { host: 1, value: 1 }));
}

#[test]
fn a_value_that_nobody_wrote_is_refused() {
    assert_eq!(judged("0 1-2 0>1, 2 3-4 r 7, 0 5-6 r 1"), Err(Fault::Wrong { host: 1, value: 7 }));
    // A value must not be seen before its write was requested.
    assert_eq!(judged("0 1-2 0>1, 2 3-4 r 2, 0 5-6 1>2, 0 7-8 r 2"), Err(Fault::Wrong { host: 1, value: 2 }));
}

#[test]
fn long_histories_with_lost_answers_are_judged_soon() {
    let mut operations = Vec::new();
    for at in 1..20_000_u64 {
        let what = What::Write { old: at - 1, new: at };
        // Every hundredth answer is lost.
        let ended = (at % 100 > 0).then_some(at * 10 + 15);
        operations.push(Operation { host: 0, client: 0, what, begun: at * 10, ended });
        operations.push(Operation {
            host: 1,
            client: 2,
            what: What::Read(at),
            begun: at * 10 + 5,
            ended: Some(at * 10 + 18),
        });
    }
    assert_eq!(judge(&operations), Ok(()));
    operations.push(Operation { host: 1, client: 2, what: What::Read(19_000), begun: 900_000, ended: Some(900_001) });
    assert_eq!(judge(&operations), Err(Fault::Back { host: 1, value: 19_000 }));
}

#[test]
fn very_many_reads_at_once_are_judged_like_few() {
    // Forty reads begin beside a write; the first ones show the old value and the others the new one.
    let reads: Vec<String> = (0..40).map(|at| format!("2 4-{} r {}", 20 + at, if at < 20 { 1 } else { 2 })).collect();
    let lines = format!("0 1-2 0>1, 0 3-99 1>2, {}", reads.join(", "));
    assert_eq!(judged(&lines), Ok(()));
    assert!(matches!(judged(&format!("{lines}, 3 100-101 r 1")), Err(Fault::Late { .. } | Fault::Back { .. })));
}

/// Regression: a client that had found no ref before the ref was created was said to have gone back to the value before
/// the deletion.
#[test]
fn only_a_client_that_saw_the_deletion_goes_back_to_the_value_before_it() {
    let by = Duration::from_nanos(3);
    let end = "0 5-6 1>0, 2 9-10 r 1, 0 11-12 r 0";
    assert_eq!(judged(&format!("2 1-2 r 0, 0 3-4 0>1, {end}")), Err(Fault::Late { host: 1, value: 1, by }));
    assert_eq!(judged(&format!("0 3-4 0>1, 2 7-8 r 0, {end}")), Err(Fault::Back { host: 1, value: 1 }));
}
