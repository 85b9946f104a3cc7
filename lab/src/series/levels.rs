//! Says what a change of a series means in the light of earlier ones.

/// The change of a cost from one level of a series to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The cost before as a multiple of the reference's, beside which all levels are measured.
    pub level: f64,
    /// The cost afterwards divided by the cost before.
    pub ratio: f64,
    /// The lower bound of the ratio.
    pub low: f64,
    /// The upper bound of the ratio.
    pub high: f64,
}

/// Returns the index of the earlier step that the last step takes back, so that the cost is again what it was before
/// that step; the latest if there are several. The cost counts as the same if the difference is within `tolerance`, a
/// fraction, or at most a quarter of the last step. The difference is that between `now`, which is the present cost as
/// a multiple of the reference's, and the earlier level, or what the ratios of the steps come to, if their intervals
/// permit that nothing has changed.
pub fn taken_back(steps: &[Step], now: f64, tolerance: f64) -> Option<usize> {
    let (last, earlier) = steps.split_last()?;
    let margin = tolerance.ln_1p();
    let most = margin.max(last.ratio.ln().abs() / 4.0);
    let [mut whole, mut low, mut high] = [last.ratio, last.low, last.high].map(f64::ln);
    for (place, step) in earlier.iter().enumerate().rev() {
        whole += step.ratio.ln();
        low += step.low.ln();
        high += step.high.ln();
        let opposes = (step.ratio > 1.0) != (last.ratio > 1.0);
        // A wide interval easily permits that nothing has changed, so the measured difference must be small too.
        let ratios_cancel = low <= margin && high >= -margin && whole.abs() <= most;
        // Steps that were proved beside different loads need not cancel, because a load changes some ratios.
        let is_as_before = (now / step.level).ln().abs() <= most;
        if opposes && (ratios_cancel || is_as_before) {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns steps whose levels agree with their ratios, and the level after the last one.
    fn steps(ratios: &[f64]) -> (Vec<Step>, f64) {
        let mut level = 1.0;
        let step = |ratio: &f64| {
            let step = Step { level, ratio: *ratio, low: ratio * 0.99, high: ratio * 1.01 };
            level *= ratio;
            step
        };
        (ratios.iter().map(step).collect(), level)
    }

    fn taken_back_by(ratios: &[f64]) -> Option<usize> {
        let (steps, now) = steps(ratios);
        taken_back(&steps, now, 0.01)
    }

    #[test]
    fn a_step_that_went_away_is_the_latest_one_that_is_undone() {
        assert_eq!(taken_back_by(&[1.1, 1.0 / 1.1]), Some(0));
        assert_eq!(taken_back_by(&[1.3, 1.1, 0.91]), Some(1));
        assert_eq!(taken_back_by(&[1.1, 1.2, 1.0 / 1.32]), Some(0), "one step takes back two");
        assert_eq!(taken_back_by(&[0.5, 2.0]), Some(0), "an improvement can be lost again");
    }

    #[test]
    fn a_step_in_the_same_direction_or_of_another_size_takes_nothing_back() {
        for ratios in [&[][..], &[1.1], &[1.1, 1.1], &[1.5, 0.9], &[1.05, 0.8]] {
            assert_eq!(taken_back_by(ratios), None, "{ratios:?}");
        }
        let (mut vague, now) = steps(&[1.6, 0.8]);
        (vague[1].low, vague[1].high) = (0.5, 1.2);
        assert_eq!(taken_back(&vague, now, 0.01), None, "an interval that is wide proves nothing");
    }

    #[test]
    fn a_step_that_a_load_made_larger_is_taken_back_if_the_cost_beside_the_reference_is_as_before() {
        let (mut steps, _) = steps(&[2.134, 0.324]);
        (steps[1].low, steps[1].high) = (0.29, 0.433);
        assert_eq!(taken_back(&steps, 0.994, 0.01), Some(0));
        assert_eq!(taken_back(&steps, 0.691, 0.01), None);
    }
}
