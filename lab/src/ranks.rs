//! Tests paired differences by signed ranks, once, after the last run. This detects smaller differences than the bets
//! of [`crate::stats`], which pay for being valid at any moment. See docs/decisions/0080-the-lab-bets.md.

use std::cmp::Reverse;

/// The score of each difference in the larger half. Ranks above the middle have no higher score, so that outliers
/// decide nothing.
const SCORE_MAX: usize = 30;

/// Returns the score of a rank among `count`, where ranks begin at 1. It never falls as the rank rises.
fn score(rank: usize, count: usize) -> usize {
    assert!((1..=count).contains(&rank), "a rank is one of those there are");
    (2 * SCORE_MAX * rank).div_ceil(count).min(SCORE_MAX)
}

/// Returns the smallest sum of scores that `count` differences reach by chance in at most `rate` of all cases, if each
/// is as likely positive as negative; `None` if even the highest sum is not that rare.
pub fn needed(count: usize, rate: f64) -> Option<usize> {
    // The chance of each sum, after adding one difference after the other.
    let mut chances = vec![1.0];
    for rank in 1..=count {
        let score = score(rank, count);
        let mut longer = vec![0.0; chances.len() + score];
        for (sum, chance) in chances.iter().enumerate() {
            longer[sum] += chance / 2.0;
            longer[sum + score] += chance / 2.0;
        }
        chances = longer;
    }
    let mut tail = 0.0;
    let rare = |(_, chance): &(usize, &f64)| {
        tail += **chance;
        tail <= rate
    };
    chances.iter().enumerate().rev().take_while(rare).last().map(|(sum, _)| sum)
}

/// Returns the sum of the scores of the differences that exceed `level`, ranked by their distance from it. The sum
/// never rises with the level. If two distances are equal, the one above the level has the lower rank. A difference
/// equal to the level is not above it.
pub fn sum_above(differences: &[f64], level: f64) -> usize {
    let mut excess: Vec<f64> = differences.iter().map(|difference| difference - level).collect();
    excess.sort_by(|a, b| a.abs().total_cmp(&b.abs()).then(Reverse(*a > 0.0).cmp(&Reverse(*b > 0.0))));
    let scores = excess.iter().enumerate().filter(|(_, excess)| **excess > 0.0);
    scores.map(|(place, _)| score(place + 1, differences.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coin::Coin;

    #[test]
    fn the_sum_that_is_needed_is_the_one_that_counting_all_signs_gives() {
        for (count, rate) in [(9, 0.004), (10, 0.01), (12, 0.05)] {
            let sum =
                |signs: u32| (1..=count).filter(|rank| signs >> rank & 1 == 1).map(|rank| score(rank, count)).sum();
            let sums: Vec<usize> = (0..1_u32 << count).map(|signs| sum(signs << 1)).collect();
            let part = |least: usize| sums.iter().filter(|sum| **sum >= least).count() as f64 / sums.len() as f64;
            let needed = needed(count, rate).unwrap();
            assert!(part(needed) <= rate && part(needed - 1) > rate, "{count}: {needed}");
        }
    }

    #[test]
    fn too_few_differences_are_never_sure() {
        assert_eq!((needed(0, 0.5), needed(7, 0.004), needed(8, 0.004).is_some()), (None, None, true));
        assert_eq!(sum_above(&[], 0.0), 0);
    }

    #[test]
    fn the_sum_never_rises_with_the_level_whatever_ties_there_are() {
        let mut coin = Coin::new(7);
        for _ in 0..300 {
            let differences: Vec<f64> = (0..11).map(|_| (coin.bits() % 7) as f64 - 3.0).collect();
            let sums: Vec<usize> = (-40..40).map(|level| sum_above(&differences, f64::from(level) / 8.0)).collect();
            assert!(sums.is_sorted_by(|a, b| a >= b), "{differences:?}: {sums:?}");
        }
    }

    #[test]
    fn equal_differences_at_the_level_and_outliers_prove_nothing() {
        assert_eq!(sum_above(&[0.0; 60], 0.0), 0);
        assert!(sum_above(&[50.0; 8], 0.0) < needed(60, 0.4).unwrap());
    }
}
