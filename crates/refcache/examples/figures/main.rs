//! Measures views: makes repositories in DIR, prints tables of figures, and removes the repositories.
//! docs/benchmarking.md has results.
//!
//! ```text
//! figures DIR [REFS]               look-ups and listings on many refs; DIR in memory (/dev/shm)
//! figures floor DIR [REFS]         look-ups beside the system calls that they make, alone, on the same names
//! figures commits DIR              how many commits a second several threads make, with syncs; DIR on a disk
//! figures bulk DIR                 10,000 new refs in one atomic batch on 100,000, with syncs
//! figures change DIR [REFS]        a new change of two refs on many, with syncs, beside copying the same bytes
//! figures batches DIR [REFS] [S] [BOUND]
//!                                  new changes of two refs by eight threads for S seconds, with syncs and folds;
//!                                  a BOUND of 0 for no folds
//! figures bound DIR [REFS] [BOUND] lists and look-ups with no loose ref and with as many as there may be
//! figures beyond DIR [REFS]        more refs than there is memory for, 10 million unless said
//! figures projects DIR [PROJECTS]  the cost of each of many small repositories, and of coming back to one
//! ```

mod batches;
mod beyond;
mod floor;
mod projects;
mod reads;
mod repository;
mod writes;

use std::path::PathBuf;

const USAGE: &str = "usage: figures [floor|commits|bulk|change|batches|bound|beyond|projects] DIR [REFS]";

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let what = match args.first().map(String::as_str) {
        Some("floor" | "commits" | "bulk" | "change" | "batches" | "bound" | "beyond" | "projects") => args.remove(0),
        _ => String::new(),
    };
    let dir = PathBuf::from(args.first().expect(USAGE));
    let count = args.get(1).map(|count| count.parse().expect(USAGE));
    let refs = count.unwrap_or(1_500_000);
    match what.as_str() {
        "floor" => floor::measure(&dir, refs),
        "commits" => writes::measure_commits(&dir),
        "bulk" => writes::measure_bulk(&dir),
        "projects" => projects::measure(&dir, count.unwrap_or(3_000)),
        "batches" => {
            let seconds = args.get(2).map_or(60, |seconds| seconds.parse().expect(USAGE));
            let bound = args.get(3).map_or(batches::BOUND, |bound| bound.parse().expect(USAGE));
            batches::measure(&dir, refs, seconds, bound);
        }
        "beyond" => beyond::measure(&dir, count.unwrap_or(10_000_000)),
        "bound" => {
            let bound = args.get(2).map_or(batches::BOUND, |bound| bound.parse().expect(USAGE));
            batches::measure_bound(&dir, refs, bound);
        }
        "change" => writes::measure_change(&dir, refs),
        _ => reads::measure(&dir, refs),
    }
}
