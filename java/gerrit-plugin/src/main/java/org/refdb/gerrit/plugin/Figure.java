package org.refdb.gerrit.plugin;

import com.google.gerrit.metrics.Description;
import java.util.Collection;
import java.util.List;
import java.util.function.ToLongFunction;
import org.refdb.engine.RefStats;
import org.refdb.gerrit.refs.ProjectStat;

/**
 * A number that refdb knows of every project, and its metric.
 *
 * @param name name of the metric
 * @param description description of the metric
 * @param isOfProjects whether the metric also exists for single projects
 * @param kind how the number changes, and how those of several projects are combined
 * @param value returns the number of one project
 */
record Figure(
    String name, String description, boolean isOfProjects, Kind kind, ToLongFunction<ProjectStat> value) {

  /** Kind of metric. */
  enum Kind {
    /** Grows while the server runs; the figures of projects are added up. */
    COUNTER,
    /** Goes up and down; the figures of projects are added up. */
    GAUGE,
    /** A gauge, too, but the largest figure of any project is taken. */
    MAXIMUM
  }

  /** All figures. */
  static final List<Figure> ALL =
      List.of(
          overall("projects", "Projects whose repository was opened, or at least tried", Kind.GAUGE, stat -> 1),
          overall(
              "refused_projects",
              "Projects that refdb cannot serve; JGit does, unless they have reftables or native mode is on",
              Kind.GAUGE,
              stat -> stat.refusal() == null ? 0 : 1),
          overall(
              "plain_evicted",
              "Repository objects without refdb found in JGit's cache",
              Kind.COUNTER,
              ProjectStat::plainEvicted),
          engine("hits", "Look-ups answered from memory", RefStats::hits),
          engine("misses", "Look-ups that had to read", RefStats::misses),
          engine(
              "loads",
              "Times that refs were found changed by others, or that the index from objects to refs was built",
              RefStats::loads),
          engine("load_nanos", "Nanoseconds spent on building the index from objects to refs", RefStats::loadNanos),
          engine(
              "reopens",
              "Repositories opened again because they were replaced, reconfigured, converted or flushed",
              RefStats::reopens),
          new Figure(
              "bytes",
              "Memory held off the Java heap, in bytes",
              true,
              Kind.GAUGE,
              ifAsked(RefStats::bytes)),
          engine("commits", "Batches of ref updates that ended without an error", RefStats::commits),
          engine("commit_groups", "Groups in which batches of ref updates were committed", RefStats::groups),
          maximum(
              "largest_commit_group",
              "The most batches of ref updates that were committed together",
              ifAsked(RefStats::largestGroup)),
          engine("rejections", "Batches refused, and updates refused in other batches", RefStats::rejections),
          engine("verifications", "Comparisons of memory with the disk", RefStats::verifications),
          engine("stale", "Refs that a comparison of memory with the disk found to be stale", RefStats::stale),
          new Figure(
              "broken",
              "Refs whose files are corrupt or cannot be read, which lists leave out",
              true,
              Kind.GAUGE,
              ifAsked(RefStats::broken)),
          new Figure(
              "unsorted",
              "Repositories whose packed-refs is out of order",
              true,
              Kind.GAUGE,
              ifAsked(RefStats::unsorted)),
          overall(
              "git_packs",
              "Projects whose small batches go to packed-refs, since git may pack refs there",
              Kind.GAUGE,
              stat -> ifAsked(RefStats::gitPacks).applyAsLong(stat) == 0 ? 0 : 1),
          maximum(
              "stale_at_most_millis",
              "The longest that a stale ref can have been stale, in milliseconds",
              stat -> stat.staleness().staleAtMostMillis()),
          maximum(
              "unverified_millis",
              "Milliseconds since memory was last known to agree with the disk",
              stat -> stat.staleness().unverifiedMillis()),
          counter(
              "verify_nanos",
              "Nanoseconds spent on comparisons of memory with the disk",
              stat -> stat.staleness().nanos()),
          counter("refreshed", "Checks caused by other nodes' news or by an administrator", ProjectStat::refreshed),
          overall(
              "shadow/projects",
              "Projects in shadow mode",
              Kind.GAUGE,
              stat -> stat.shadow() ? 1 : 0),
          counter(
              "shadow/compared", "Questions asked of both JGit and refdb", ProjectStat::compared),
          counter(
              "shadow/different",
              "Questions in shadow mode that refdb answered otherwise than JGit",
              ProjectStat::different));

  private static Figure overall(String name, String description, Kind kind, ToLongFunction<ProjectStat> value) {
    return new Figure(name, description, false, kind, value);
  }

  private static Figure counter(String name, String description, ToLongFunction<ProjectStat> value) {
    return new Figure(name, description, true, Kind.COUNTER, value);
  }

  private static Figure maximum(String name, String description, ToLongFunction<ProjectStat> value) {
    return new Figure(name, description, true, Kind.MAXIMUM, value);
  }

  private static Figure engine(String name, String description, ToLongFunction<RefStats> value) {
    return counter(name, description, ifAsked(value));
  }

  private static ToLongFunction<ProjectStat> ifAsked(ToLongFunction<RefStats> value) {
    return stat -> stat.engine() == null ? 0 : value.applyAsLong(stat.engine());
  }

  /** Description of the metric for Gerrit. */
  Description describe(String suffix) {
    Description told = new Description(description + suffix);
    return kind == Kind.COUNTER ? told.setCumulative() : told.setGauge();
  }

  /** The figure of all projects together. */
  long of(Collection<ProjectStat> stats) {
    return kind == Kind.MAXIMUM
        ? stats.stream().mapToLong(value).max().orElse(0)
        : stats.stream().mapToLong(value).sum();
  }
}
