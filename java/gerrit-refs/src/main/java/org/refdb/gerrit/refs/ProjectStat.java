package org.refdb.gerrit.refs;

import org.refdb.engine.RefStats;

/**
 * Figures of one project since Gerrit started.
 *
 * @param project its name
 * @param shadow whether JGit answers and refdb is only compared
 * @param refusal why refdb does not serve it, or null
 * @param plainEvicted how many times a {@code Repository} that does not use refdb was found in JGit's cache and evicted
 * @param compared queries that both JGit and refdb were asked in shadow mode
 * @param different queries that refdb answered differently from JGit, or with an error other than a broken ref
 * @param refreshed how many times {@link RefdbAdmin#refresh} told the engine to check the disk, for example because of
 *     an invalidation from another node
 * @param engine the engine's figures for the project, or null if the project's refs were not used yet
 * @param staleness what the verifier found
 */
public record ProjectStat(
    String project,
    boolean shadow,
    String refusal,
    long plainEvicted,
    long compared,
    long different,
    long refreshed,
    RefStats engine,
    StaleStats staleness) {

  static ProjectStat of(ProjectState state) {
    return new ProjectStat(
        ProjectName.of(state.name),
        state.shadow,
        state.refusal() == null ? null : state.refusal().why(),
        state.plainEvicted.sum(),
        state.compared.sum(),
        state.different.sum(),
        state.refreshed.sum(),
        state.stats(),
        state.staleness.figures(System.nanoTime()));
  }

  /** Returns how often refs of the project were looked up by name, and batches committed. Lists do not count. */
  long uses() {
    return engine == null ? 0 : engine.hits() + engine.misses() + engine.commits();
  }

  /** Returns whether a trust setting says {@code always} although the project is on a network file system. */
  public boolean isTrustIgnored() {
    return engine != null && engine.ignoredTrust() > 0;
  }

  /** Describes the figures to people in a few lines. */
  public String text() {
    StringBuilder text = new StringBuilder(project);
    if (refusal != null) {
      text.append(" NOT SERVED by refdb (JGit serves it unless its refs are reftables or native mode is on), because ");
      text.append(refusal);
    } else {
      text.append(shadow ? " in shadow mode" : " served by refdb");
    }
    if (engine != null) {
      text.append(
          "%n  look-ups: %d from memory, %d read; loads: %d, indexes took %.1f ms; reopened %d times; %d bytes held"
              .formatted(
                  engine.hits(), engine.misses(), engine.loads(), engine.loadNanos() / 1e6, engine.reopens(),
                  engine.bytes()));
      text.append(
          "%n  commits: %d in %d groups, the largest %d; %d refused"
              .formatted(engine.commits(), engine.groups(), engine.largestGroup(), engine.rejections()));
      text.append("%n  verifications: %d, stale refs found %d".formatted(engine.verifications(), engine.stale()));
      if (engine.broken() > 0) {
        text.append("%n  broken refs, which lists leave out: %d (verify names them)".formatted(engine.broken()));
      }
      if (engine.unsorted() > 0) {
        text.append(
            "%n  packed-refs is out of order although it says that it is sorted (the log says where): run gc"
                .formatted());
      }
    }
    if (engine != null && engine.gitPacks() > 0) {
      text.append("%n  small batches go to packed-refs, since %s lets git pack refs".formatted(engine.settingsOfGit()));
    }
    if (isTrustIgnored()) {
      text.append(
          "%n  a trust setting is `always` on a network file system: it means after_open to refdb, and makes JGit late"
              .formatted());
    }
    text.append(
        "%n  verified by itself %.0f s ago; found %d stale refs, for at most %.1f s"
            .formatted(staleness.unverifiedMillis() / 1e3, staleness.found(), staleness.staleAtMostMillis() / 1e3));
    text.append(
        "%n  plain repositories evicted %d, told to check the disk %d times".formatted(plainEvicted, refreshed));
    if (compared > 0) {
      text.append("%n  shadow: %d compared, %d different".formatted(compared, different));
    }
    return text.toString();
  }
}
