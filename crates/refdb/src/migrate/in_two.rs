//! Divides work on very many files between two threads, because with 100,000 reflogs most of the time is spent in
//! system calls for single files.

use super::Result;
use std::{panic::resume_unwind, thread};

/// The number of items from which a second thread is worthwhile.
const LEN_MIN: usize = 128;

/// Returns the result of `work` for each item, in order. The items are divided between this thread and another one,
/// each of which has a state that `begin` creates.
pub(super) fn in_two<T: Sync, S, R: Send>(
    items: &[T],
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let all = |items: &[T]| {
        let mut state = begin();
        items.iter().map(|item| work(&mut state, item)).collect::<Result<Vec<R>>>()
    };
    if items.len() < LEN_MIN {
        return all(items);
    }
    let (here, there) = items.split_at(items.len() / 2);
    let (done, rest) = thread::scope(|scope| {
        // If no thread can be created, this thread does all of the work.
        let Ok(other) = thread::Builder::new().spawn_scoped(scope, || all(there)) else {
            return (all(here), all(there));
        };
        (all(here), other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let mut done = done?;
    done.extend(rest?);
    assert_eq!(done.len(), items.len(), "each item was worked on once");
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Misuse;

    #[test]
    fn each_item_is_worked_on_in_order_and_a_failure_in_either_half_is_told() {
        for len in [0, 1, LEN_MIN - 1, LEN_MIN, 10 * LEN_MIN + 1] {
            let items: Vec<usize> = (0..len).collect();
            assert_eq!(in_two(&items, || (), |(), item| Ok(*item)).unwrap(), items);
            for bad in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|bad| *bad < len) {
                let work = |_: &mut (), item: &usize| {
                    if *item == bad { Err(Misuse::BadId("x".into()).into()) } else { Ok(()) }
                };
                assert!(in_two(&items, || (), work).is_err(), "{bad} of {len}");
            }
        }
    }
}
