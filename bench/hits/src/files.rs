//! Traces in files.

use crate::traces::Key;
use anyhow::{Context, ensure};
use std::{collections::HashMap, path::Path};

/// Length of a request in libCacheSim's format `oracleGeneral`: the time in 4 bytes, the key in 8, the size in 4 and
/// the next request of the key in 8.
const REQUEST_BYTES: usize = 24;

/// Requests, and the sizes of the entries if the trace has them.
pub struct Requests {
    /// The keys, numbered as they come first.
    pub keys: Vec<Key>,
    /// The bytes of each key's entry, as its first request says, but at least 1; empty if the file has no sizes.
    pub sizes: Vec<u32>,
}

impl Requests {
    /// Numbers the keys of these requests.
    pub fn new(requests: impl IntoIterator<Item = (u64, Option<u32>)>) -> Self {
        let (mut numbers, mut keys, mut sizes) = (HashMap::new(), Vec::new(), Vec::new());
        for (key, size) in requests {
            let next = numbers.len() as Key;
            let number = *numbers.entry(key).or_insert(next);
            if number == next {
                sizes.extend(size.map(|size| size.max(1)));
            }
            keys.push(number);
        }
        Requests { keys, sizes }
    }

    /// How many keys there are.
    pub fn distinct(&self) -> u64 {
        self.keys.iter().max().map_or(0, |last| last + 1)
    }
}

/// Reads a trace: libCacheSim's `oracleGeneral` if the file's name ends in `.bin`; otherwise text with a key, a number,
/// in each line, and after a blank the size of the entry in bytes, in each line or in none.
pub fn read(path: &Path) -> anyhow::Result<Requests> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let requests = match path.extension().is_some_and(|end| end == "bin") {
        true => binary(&bytes),
        false => text(&bytes),
    };
    requests.with_context(|| format!("{} is no trace", path.display()))
}

fn binary(bytes: &[u8]) -> anyhow::Result<Requests> {
    let (requests, rest) = bytes.as_chunks::<REQUEST_BYTES>();
    ensure!(rest.is_empty(), "{} bytes do not follow the format", rest.len());
    Ok(Requests::new(requests.iter().map(|request| {
        let key = u64::from_le_bytes(std::array::from_fn(|at| request[4 + at]));
        let size = u32::from_le_bytes(std::array::from_fn(|at| request[12 + at]));
        (key, Some(size))
    })))
}

fn text(bytes: &[u8]) -> anyhow::Result<Requests> {
    let mut requests = Vec::new();
    for (line, number) in str::from_utf8(bytes)?.lines().zip(1..) {
        let wrong = || format!("line {number}: {line:?}");
        let mut words = line.split_whitespace();
        let key = words.next().with_context(wrong)?.parse::<i64>().with_context(wrong)? as u64;
        let size = words.next().map(str::parse).transpose().with_context(wrong)?;
        ensure!(words.next().is_none(), wrong());
        requests.push((key, size));
    }
    let with_sizes = requests.iter().filter(|(_, size)| size.is_some()).count();
    ensure!(with_sizes == 0 || with_sizes == requests.len(), "only {with_sizes} requests have a size");
    Ok(Requests::new(requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_and_have_the_sizes_that_came_first() {
        let requests = text(b"70 5\n-3 0\n70 9\n8 7\n").unwrap();
        assert_eq!((requests.keys, requests.sizes), (vec![0, 1, 0, 2], vec![5, 1, 7]));
        let requests = text(b"70\n70\n").unwrap();
        assert_eq!((requests.distinct(), requests.sizes.len()), (1, 0));
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for bytes in [&b"1\n2 3\n"[..], b"x\n", b"\n", b"1 2 3\n", b"1 -2\n", b"\xff\n"] {
            assert!(text(bytes).is_err(), "{bytes:?}");
        }
        assert!(binary(&[0; 25]).is_err());
    }

    #[test]
    fn a_request_of_libcachesim_is_read() {
        let mut bytes = vec![9; 4];
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend([1; 8]);
        let requests = binary(&bytes.repeat(2)).unwrap();
        assert_eq!((requests.keys, requests.sizes), (vec![0, 0], vec![4096]));
    }
}
