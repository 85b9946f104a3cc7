package org.refdb.gerrit.global;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.refs.GlobalSettled;

/** The SSH commands. They need the capabilities that Gerrit's own commands of the kind need. */
final class AdminCommands {
  /** The most refs that differ which are told of, unless another number is said. */
  static final long MOST = 1000;

  private AdminCommands() {}

  /** What all have in common. */
  abstract static class OnSite extends SshCommand {
    @Inject Site site;
    @Inject GlobalRefs refs;

    abstract void work() throws UnloggedFailure, IOException, GlobalRefException;

    @Override
    protected final void run() throws UnloggedFailure {
      try {
        work();
      } catch (IOException | GlobalRefException e) {
        throw die(e.getMessage());
      }
    }

    DiskRefs open(String project) throws UnloggedFailure, IOException, GlobalRefException {
      if (!site.hasVisible(project)) {
        throw die("there is no project " + project);
      }
      return site.open(project);
    }
  }

  /** {@code refdb-global status}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "status", description = "What etcd and this node say; fails if something is wrong")
  static final class ShowStatus extends OnSite {
    @Inject private Heard heard;

    @Override
    void work() throws UnloggedFailure {
      Status status = Status.ask(refs, heard);
      status.text().forEach(stdout::println);
      if (!status.isGood()) {
        throw die("not all is well");
      }
    }
  }

  /** {@code refdb-global import (PROJECT | --all)}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "import", description = "Puts the refs of a project, or of all, into etcd")
  static final class ImportRefs extends OnSite {
    @Argument(index = 0, metaVar = "PROJECT", usage = "the project's name")
    private String project;

    @Option(name = "--all", usage = "all projects that are not imported yet")
    private boolean all;

    @Override
    void work() throws UnloggedFailure, IOException, GlobalRefException {
      if (all == (project != null)) {
        throw die("say a project or --all");
      }
      List<String> projects = all ? site.all() : List.of(project);
      List<String> failed = new ArrayList<>();
      for (String one : projects) {
        try {
          take(one);
        } catch (IOException | GlobalRefException e) {
          if (!all || Thread.currentThread().isInterrupted()) {
            throw e;
          }
          stdout.println(one + ": NOT imported: " + e.getMessage());
          failed.add(one);
        }
      }
      if (!failed.isEmpty()) {
        throw die(failed.size() + " of " + projects.size() + " projects were not imported; begun again, the import goes on");
      }
    }

    private void take(String name) throws UnloggedFailure, IOException, GlobalRefException {
      Import work = new Import(refs);
      if (work.isDone(name)) {
        stdout.println(name + ": is imported already; `compare` tells what differs");
        stdout.flush();
        return;
      }
      try (DiskRefs disk = all ? site.open(name) : open(name)) {
        work.run(disk, new EachSecond(name));
      }
      stdout.println(name + ": imported");
      stdout.flush();
    }

    /** Says so once a second. */
    private final class EachSecond implements Import.Progress {
      private final String name;
      private long said = System.nanoTime();

      EachSecond(String name) {
        this.name = name;
      }

      @Override
      public void at(long put, long there) {
        if (System.nanoTime() - said >= TimeUnit.SECONDS.toNanos(1)) {
          said = System.nanoTime();
          stdout.println(name + ": " + put + " refs put, " + there + " were there");
          stdout.flush();
        }
      }
    }
  }

  /** {@code refdb-global compare PROJECT [--limit N]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "compare", description = "Compares the refs on this disk with those in etcd; fails if some differ")
  static final class CompareRefs extends OnSite {
    @Argument(index = 0, required = true, metaVar = "PROJECT", usage = "the project's name")
    private String project;

    @Option(name = "--limit", metaVar = "N", usage = "stop after this number of refs that differ")
    private long most = MOST;

    @Override
    void work() throws UnloggedFailure, IOException, GlobalRefException {
      try (DiskRefs disk = open(project)) {
        Compare.Summary summary = new Compare(refs, disk).run(most, one -> stdout.println(one.text()));
        stdout.println(
            summary.refs() + " refs compared, " + summary.different() + " differ, " + summary.neverSeen() + " not seen by etcd yet"
                + (summary.imported() ? "" : " (the project is not imported)"));
        if (!summary.complete()) {
          throw die("stopped: more than " + most + " refs differ");
        }
        if (!summary.isClean()) {
          throw die(summary.different() + " refs differ in project " + project);
        }
      }
    }
  }

  /** {@code refdb-global repair PROJECT [REF...] (--to etcd|disk | --intents) [--dry-run]}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "repair", description = "Sets refs that differ to etcd's values, or etcd to this disk's")
  static final class RepairRefs extends OnSite {
    @Argument(index = 0, required = true, metaVar = "PROJECT", usage = "the project's name")
    private String project;

    @Argument(index = 1, metaVar = "REF", usage = "the refs; all that differ without")
    private List<String> names = new ArrayList<>();

    @Option(name = "--to", metaVar = "etcd|disk", usage = "whose values are right")
    private String to;

    @Option(name = "--intents", usage = "settle undecided updates of native mode only")
    private boolean isForIntents;

    @Option(name = "--dry-run", usage = "say what would be done, and do nothing")
    private boolean isDry;

    @Option(name = "--limit", metaVar = "N", usage = "repair at most this number of refs")
    private long most = MOST;

    @Inject private Heard heard;

    @Override
    void work() throws UnloggedFailure, IOException, GlobalRefException {
      Optional<Repair.To> right = Repair.To.of(to);
      if (right.isEmpty() && (to != null || !isForIntents) || right.isPresent() && isForIntents) {
        throw die("say --to etcd or --to disk: whose values are right; or --intents");
      }
      try (DiskRefs disk = open(project)) {
        // Before the refs, which an open update bars.
        GlobalSettled intents = heard.settle(project, isDry, stdout::println);
        if (isForIntents || !intents.equals(GlobalSettled.NONE)) {
          stdout.println(
              intents.settled() + (isDry ? " updates would be settled, " : " updates settled, ") + intents.underWay() + " under way, "
                  + intents.failed() + " not");
        }
        if (right.isPresent()) {
          repair(disk, right.get());
        }
        if (intents.failed() > 0) {
          throw die(intents.failed() + " updates could not be settled");
        }
      }
    }

    private void repair(DiskRefs disk, Repair.To right) throws UnloggedFailure, IOException, GlobalRefException {
      Repair.Summary summary = new Repair(refs, disk).run(names, most, right, isDry, stdout::println);
      stdout.println(summary.repaired() + (isDry ? " refs would be repaired" : " refs repaired") + ", " + summary.failed() + " not");
      if (summary.failed() > 0) {
        throw die(summary.failed() + " refs could not be repaired");
      }
    }
  }
}
