package org.refdb.gerrit.refs;

/**
 * What the verifier has found in a project since Gerrit started.
 *
 * @param found refs that were found to be stale
 * @param staleAtMostMillis upper bound of the time that any of them was stale
 * @param nanos time spent on comparisons
 * @param unverifiedMillis time since the last comparison that succeeded or since the project was last found unused,
 *     whichever was later; without either, since it was first used
 */
public record StaleStats(long found, long staleAtMostMillis, long nanos, long unverifiedMillis) {}
