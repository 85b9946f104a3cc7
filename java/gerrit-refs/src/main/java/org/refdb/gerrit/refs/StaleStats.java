package org.refdb.gerrit.refs;

/**
 * What the verifier found of a project since Gerrit started.
 *
 * @param found refs that were found to be stale
 * @param staleAtMostMillis the longest that any of them can have been so
 * @param nanos time spent on comparing
 * @param unverifiedMillis time since the last comparison that found nothing, or since the project was last found unused
 */
public record StaleStats(long found, long staleAtMostMillis, long nanos, long unverifiedMillis) {}
