//! Decides, with pure functions, which jobs are worse or better than recorded.

use super::record::Record;

/// The result of comparing two records.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The records are not comparable, because of these differences.
    CannotTell(Vec<String>),
    /// The jobs in both records that changed by more than the limit.
    Told(Vec<Change>),
}

/// A job that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The name of the job.
    pub job: String,
    /// The instructions after the change divided by those before it.
    pub ratio: f64,
    /// Whether the job takes more instructions than before.
    pub is_worse: bool,
}

/// Compares `after` with `before`. A job is worse if its ratio exceeds `limit`, and better if it is below 1 / `limit`.
/// Jobs that are in only one of the records are ignored.
pub fn judge(before: &Record, after: &Record, limit: f64) -> Verdict {
    assert!(limit > 1.0, "a limit is a ratio that is worse");
    let names = before.machine.keys().chain(after.machine.keys().filter(|name| !before.machine.contains_key(*name)));
    let differs = |name: &String| {
        let of = |record: &Record| record.machine.get(name).map_or("nothing", String::as_str).to_owned();
        let (then, now) = (of(before), of(after));
        (then != now).then(|| format!("{name} was '{then}', now it is '{now}'"))
    };
    let different: Vec<String> = names.filter_map(differs).collect();
    if !different.is_empty() {
        return Verdict::CannotTell(different);
    }
    let change = |(job, ratio): (&str, f64)| {
        let is_worse = ratio > limit;
        (is_worse || ratio < 1.0 / limit).then(|| Change { job: job.to_owned(), ratio, is_worse })
    };
    Verdict::Told(ratios(before, after).filter_map(change).collect())
}

/// Returns the largest ratio of a job, with the name of the job.
pub fn most<'a>(before: &'a Record, after: &'a Record) -> Option<(f64, &'a str)> {
    ratios(before, after).map(|(job, ratio)| (ratio, job)).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the ratio of each job that is in both records, except those for which nothing was counted before.
fn ratios<'a>(before: &'a Record, after: &'a Record) -> impl Iterator<Item = (&'a str, f64)> {
    let both = after.counts.iter().filter_map(|(job, now)| before.counts.get(job).map(|then| (job, *then, *now)));
    both.filter(|(_, then, _)| *then > 0).map(|(job, then, now)| (job.as_str(), now as f64 / then as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(show: u64, list: u64) -> Record {
        let names = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Record {
            time: 1,
            commit: "c0ffee".to_owned(),
            release: None,
            machine: names(&[("rustc", "1.95.0"), ("libc", "2.36")]),
            counts: [("show/files", show), ("list/files", list)].map(|(job, count)| (job.to_owned(), count)).into(),
        }
    }

    #[test]
    fn a_planted_slowdown_is_worse_and_no_change_is_nothing() {
        let before = record(1_000_000, 2_000_000);
        let Verdict::Told(changes) = judge(&before, &record(1_040_000, 2_000_000), 1.03) else { panic!("comparable") };
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        assert!(change.is_worse && change.job == "show/files" && (change.ratio - 1.04).abs() < 1e-9, "{change:?}");
        assert_eq!(judge(&before, &before, 1.03), Verdict::Told(Vec::new()));
        assert_eq!(judge(&before, &record(1_030_000, 1_950_000), 1.03), Verdict::Told(Vec::new()), "within the limit");
    }

    #[test]
    fn better_is_not_worse_and_the_largest_ratio_is_known() {
        let (before, after) = (record(100, 200), record(90, 202));
        let Verdict::Told(changes) = judge(&before, &after, 1.03) else { panic!("comparable") };
        assert!(changes.len() == 1 && !changes[0].is_worse, "{changes:?}");
        assert_eq!(most(&before, &after), Some((1.01, "list/files")));
    }

    #[test]
    fn records_of_another_kind_cannot_be_compared() {
        let before = record(1, 1);
        let mut after = record(9, 9);
        after.machine.insert("rustc".to_owned(), "1.96.0".to_owned());
        after.machine.remove("libc");
        let why = ["libc was '2.36', now it is 'nothing'", "rustc was '1.95.0', now it is '1.96.0'"];
        assert_eq!(judge(&before, &after, 1.03), Verdict::CannotTell(why.map(str::to_owned).to_vec()));
    }

    #[test]
    fn new_jobs_and_jobs_without_a_count_are_passed_over() {
        let (mut before, after) = (record(0, 100), record(5, 100));
        assert_eq!(judge(&before, &after, 1.03), Verdict::Told(Vec::new()));
        before.counts.clear();
        assert_eq!(judge(&before, &after, 1.03), Verdict::Told(Vec::new()));
        assert_eq!(most(&before, &after), None);
    }
}
