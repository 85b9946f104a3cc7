package org.refdb.gerrit.plugin;

import java.util.Collection;
import java.util.List;
import java.util.function.ToLongFunction;
import org.refdb.engine.RefStats;
import org.refdb.gerrit.ProjectStat;

/**
 * A figure that there is of every project.
 *
 * @param name of its metric
 * @param description what it counts
 * @param isOfProjects whether single projects have it too
 * @param isMaximum whether all projects together have the largest one, else the sum
 * @param value the figure of a project
 */
record Figure(
    String name, String description, boolean isOfProjects, boolean isMaximum, ToLongFunction<ProjectStat> value) {

  /** All there are. */
  static final List<Figure> ALL =
      List.of(
          sum("projects", "Projects whose repository was opened", stat -> 1),
          sum("refused_projects", "Projects that refdb could not serve and JGit does", stat -> stat.refusal() == null ? 0 : 1),
          sum("plain_evicted", "Repository objects without refdb found in JGit's cache", ProjectStat::plainEvicted),
          engine("hits", "Look-ups answered from memory", RefStats::hits),
          engine("misses", "Look-ups that had to read", RefStats::misses),
          engine("loads", "Times that refs were found changed by others, or read for the first time", RefStats::loads),
          engine("load_nanos", "Nanoseconds spent on that", RefStats::loadNanos),
          engine("reopens", "Repositories opened again because they were replaced or converted", RefStats::reopens),
          engine("bytes", "Memory held off the Java heap, in bytes", RefStats::bytes),
          engine("commits", "Batches of ref updates committed", RefStats::commits),
          engine("commit_groups", "Groups that they were committed in", RefStats::groups),
          engineMaximum("largest_commit_group", "The most that were committed together", RefStats::largestGroup),
          engine("rejections", "Ref updates refused", RefStats::rejections),
          engine("verifications", "Comparisons of memory with the disk", RefStats::verifications),
          engine("stale", "Refs that such a comparison found to be stale", RefStats::stale),
          maximum("stale_at_most_millis", "The longest that any of them can have been so", stat -> stat.staleness().staleAtMostMillis()),
          maximum("unverified_millis", "Time since a comparison that found nothing", stat -> stat.staleness().unverifiedMillis()),
          ofProjects("verify_nanos", "Nanoseconds spent on such comparisons", stat -> stat.staleness().nanos()),
          ofProjects("refreshed", "Checks caused by other nodes' news", ProjectStat::refreshed),
          sum("shadow/projects", "Projects in shadow mode", stat -> stat.shadow() ? 1 : 0),
          ofProjects("shadow/compared", "Questions asked of both JGit and refdb", ProjectStat::compared),
          ofProjects("shadow/different", "Those that refdb answered otherwise than JGit", ProjectStat::different));

  private static Figure sum(String name, String description, ToLongFunction<ProjectStat> value) {
    return new Figure(name, description, false, false, value);
  }

  private static Figure ofProjects(String name, String description, ToLongFunction<ProjectStat> value) {
    return new Figure(name, description, true, false, value);
  }

  private static Figure maximum(String name, String description, ToLongFunction<ProjectStat> value) {
    return new Figure(name, description, true, true, value);
  }

  private static Figure engine(String name, String description, ToLongFunction<RefStats> value) {
    return new Figure(name, description, true, false, ifAsked(value));
  }

  private static Figure engineMaximum(String name, String description, ToLongFunction<RefStats> value) {
    return new Figure(name, description, true, true, ifAsked(value));
  }

  private static ToLongFunction<ProjectStat> ifAsked(ToLongFunction<RefStats> value) {
    return stat -> stat.engine() == null ? 0 : value.applyAsLong(stat.engine());
  }

  /** The figure of all projects together. */
  long of(Collection<ProjectStat> stats) {
    return isMaximum ? stats.stream().mapToLong(value).max().orElse(0) : stats.stream().mapToLong(value).sum();
  }
}
