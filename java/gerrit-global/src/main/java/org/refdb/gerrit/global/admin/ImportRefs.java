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
import java.util.concurrent.TimeUnit;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.global.disk.DiskRefs;
import org.refdb.gerrit.global.disk.Import;
import org.refdb.gerrit.global.disk.SiteProjects;
import org.refdb.gerrit.global.etcd.GlobalRefException;
import org.refdb.gerrit.global.transaction.GlobalRefs;

/** Puts the refs of a project into etcd, unless that was done before. */
public final class ImportRefs {
  /**
   * Result of an import.
   *
   * @param put refs that were put into etcd, including those that others put meanwhile
   * @param there refs that etcd was found to have already, on this disk or not
   * @param already whether the project was imported before, so that nothing was done
   */
  record Result(long put, long there, boolean already) {}

  private final GlobalRefs refs;
  private final SiteProjects site;

  @Inject
  ImportRefs(GlobalRefs refs, SiteProjects site) {
    this.refs = refs;
    this.site = site;
  }

  Result run(String project, Import.Progress progress) throws IOException, GlobalRefException {
    try (DiskRefs disk = site.open(project)) {
      Import work = new Import(refs);
      if (work.isDone(project)) {
        return new Result(0, 0, true);
      }
      Import.Summary summary = work.run(disk, progress);
      return new Result(summary.put(), summary.there(), false);
    }
  }

  /** {@code refdb-global import (PROJECT | --all)}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "import", description = "Puts the refs of a project, or of all, into etcd")
  public static final class Command extends AdminCommand {
    @Inject private ImportRefs operation;

    @Argument(index = 0, metaVar = "PROJECT", usage = "the project's name")
    private String project;

    @Option(name = "--all", usage = "all projects that are not imported yet")
    private boolean all;

    @Override
    void execute() throws UnloggedFailure, IOException, GlobalRefException {
      if (all == (project != null)) {
        throw die("say a project or --all");
      }
      if (!all) {
        checkVisible(project);
        importOne(project);
        return;
      }
      List<String> projects = operation.site.all();
      List<String> failed = new ArrayList<>();
      for (String each : projects) {
        try {
          importOne(each);
        } catch (IOException | GlobalRefException e) {
          if (Thread.currentThread().isInterrupted()) {
            throw e;
          }
          stdout.println(each + ": NOT imported: " + e.getMessage());
          failed.add(each);
        }
      }
      if (!failed.isEmpty()) {
        throw die(
            failed.size() + " of " + projects.size() + " projects were not imported; begun again, the import goes on");
      }
    }

    private void importOne(String name) throws IOException, GlobalRefException {
      boolean already = operation.run(name, new OncePerSecond(name)).already();
      stdout.println(name + (already ? ": is imported already; `compare` tells what differs" : ": imported"));
      stdout.flush();
    }

    /** Prints the progress at most once per second. */
    private final class OncePerSecond implements Import.Progress {
      private final String name;
      private long printedNanos = System.nanoTime();

      OncePerSecond(String name) {
        this.name = name;
      }

      @Override
      public void at(long put, long there) {
        if (System.nanoTime() - printedNanos >= TimeUnit.SECONDS.toNanos(1)) {
          printedNanos = System.nanoTime();
          stdout.println(name + ": " + put + " refs put, " + there + " were there");
          stdout.flush();
        }
      }
    }
  }

  /** {@code POST /projects/NAME/refdb-global~import}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  public static final class Endpoint extends ProjectEndpoint<Input, Result> {
    @Inject private ImportRefs operation;

    @Override
    Result execute(String project, Input input) throws IOException, GlobalRefException {
      return operation.run(project, (put, there) -> {});
    }
  }
}
