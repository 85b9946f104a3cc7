package org.refdb.gerrit.global.admin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.common.Input;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.global.disk.Compare;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.SiteProjects;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** Compares the refs of a project on this node's disk with those in etcd. */
public final class CompareRefs {
  private final GlobalRefs refs;
  private final SiteProjects site;

  @Inject
  CompareRefs(GlobalRefs refs, SiteProjects site) {
    this.refs = refs;
    this.site = site;
  }

  Compare.Summary run(String project, long limit, Consumer<Compare.Difference> found)
      throws IOException, GlobalRefException {
    try (DiskRefs disk = site.open(project)) {
      return new Compare(refs, disk).run(limit, found);
    }
  }

  /** {@code refdb-global compare PROJECT [--limit N]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(
      name = "compare",
      description = "Compares the refs on this disk with those in etcd; fails if some differ")
  public static final class Command extends AdminCommand {
    @Inject private CompareRefs operation;

    @Argument(index = 0, required = true, metaVar = "PROJECT", usage = "the project's name")
    private String project;

    @Option(name = "--limit", metaVar = "N", usage = "stop after this number of refs that differ")
    private long limit = Compare.DIFFERENCES_DEFAULT;

    @Override
    void execute() throws UnloggedFailure, IOException, GlobalRefException {
      checkVisible(project);
      Compare.Summary summary = operation.run(project, limit, found -> stdout.println(found.text()));
      stdout.println(
          summary.refs() + " refs compared, " + summary.different() + " differ, " + summary.neverSeen()
              + " not seen by etcd yet" + (summary.imported() ? "" : " (the project is not imported)"));
      if (!summary.complete()) {
        throw die("stopped: more than " + limit + " refs differ");
      }
      if (!summary.isClean()) {
        throw die(summary.different() + " refs differ in project " + project);
      }
    }
  }

  /** A ref that differs, as the REST endpoint returns it. */
  record DifferenceInfo(String ref, String kind, String disk, String etcd, String note) {
    static DifferenceInfo of(Compare.Difference found) {
      return new DifferenceInfo(
          found.ref(), found.kind().name(), found.disk().orElse(null), found.etcd().orElse(null), found.note());
    }
  }

  /** Result of the REST endpoint. */
  record Result(
      boolean clean, boolean imported, boolean complete, long refs, long neverSeen, List<DifferenceInfo> differences) {}

  /** {@code POST /projects/NAME/refdb-global~compare}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  public static final class Endpoint extends ProjectEndpoint<Input, Result> {
    @Inject private CompareRefs operation;

    @Override
    Result execute(String project, Input input) throws IOException, GlobalRefException {
      List<DifferenceInfo> differences = new ArrayList<>();
      Compare.Summary summary =
          operation.run(project, Compare.DIFFERENCES_DEFAULT, found -> differences.add(DifferenceInfo.of(found)));
      return new Result(
          summary.isClean(), summary.imported(), summary.complete(), summary.refs(), summary.neverSeen(), differences);
    }
  }
}
