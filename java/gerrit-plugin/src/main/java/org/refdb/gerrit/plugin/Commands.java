package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.List;
import org.kohsuke.args4j.Argument;
import org.kohsuke.args4j.Option;
import org.refdb.engine.ServerNote;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;
import org.refdb.gerrit.refs.Verified;

/** The SSH commands. They need the capabilities that Gerrit's own commands of the kind need. */
final class Commands {
  private Commands() {}

  /** What all have in common: the project they are about. */
  abstract static class OnProject extends SshCommand {
    @Inject private Visible visible;
    @Inject RefdbAdmin admin;

    @Argument(index = 0, required = true, metaVar = "PROJECT", usage = "the project's name")
    private String name;

    abstract void run(Project.NameKey project) throws UnloggedFailure, IOException;

    @Override
    protected final void run() throws UnloggedFailure, IOException {
      Project.NameKey project = Project.nameKey(name);
      if (!visible.has(project)) {
        throw die("there is no project " + name);
      }
      try {
        run(project);
      } catch (IOException e) {
        throw die(Words.of(e));
      }
    }
  }

  /** {@code refdb status}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "status", description = "Whether refdb is in use; fails where it is configured and not in use")
  static final class Status extends SshCommand {
    @Inject private Health health;
    @Inject private Visible visible;

    /** Null where only the caches are refdb's. */
    @Inject(optional = true)
    private RefdbAdmin admin;

    @Override
    protected void run() throws UnloggedFailure {
      Health.Report report = health.report();
      stdout.println("refdb " + report.version());
      for (ServerNote.Half half : health.configured()) {
        Health.HalfStatus status = health.of(half);
        stdout.println(half.word() + ": " + (status.inUse() ? "in use" : "NOT IN USE: " + status.text()));
      }
      if (admin != null) {
        tellWhereGitPacks();
      }
      if (!report.good()) {
        throw die("refdb is configured and not in use");
      }
    }

    private void tellWhereGitPacks() {
      List<ProjectStat> packing =
          visible.of(admin.stats()).stream().filter(stat -> stat.engine() != null && stat.engine().gitPacks() > 0).toList();
      if (!packing.isEmpty()) {
        stdout.println(
            "small batches go to packed-refs in " + packing.size() + " projects, since git may pack refs there by itself: "
                + packing.getFirst().engine().settingsOfGit() + " in " + packing.getFirst().project());
      }
    }
  }

  /** {@code refdb stat [PROJECT]}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "stat", description = "Figures of one project, or of all that were used")
  static final class Stat extends SshCommand {
    @Inject private RefdbAdmin admin;
    @Inject private Visible visible;

    @Argument(index = 0, metaVar = "PROJECT", usage = "the project's name; all projects without it")
    private String name;

    @Override
    protected void run() throws UnloggedFailure {
      if (name != null && !visible.has(Project.nameKey(name))) {
        throw die("there is no project " + name);
      }
      stdout.println("refdb " + admin.version() + (admin.isEngineLoaded() ? "" : ": NOT IN USE, see error_log"));
      for (ProjectStat stat : name == null ? visible.of(admin.stats()) : List.of(admin.stat(Project.nameKey(name)))) {
        stdout.println(stat.text());
      }
    }
  }

  /** {@code refdb verify PROJECT}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "verify", description = "Compares what refdb has of a project with the disk")
  static final class Verify extends OnProject {
    @Override
    void run(Project.NameKey project) throws UnloggedFailure, IOException {
      Verified found = admin.verify(project);
      found.broken().forEach(stdout::println);
      found.differences().forEach(stdout::println);
      if (!found.differences().isEmpty()) {
        throw die(found.differences().size() + " refs differ in project " + project);
      }
      stdout.println("clean");
    }
  }

  /** {@code refdb flush PROJECT}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.FLUSH_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "flush", description = "Drops what refdb holds of a project")
  static final class Flush extends OnProject {
    @Override
    void run(Project.NameKey project) {
      admin.flush(project);
    }
  }

  /** {@code refdb warm PROJECT}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "warm", description = "Reads all refs of a project into memory")
  static final class Warm extends OnProject {
    @Override
    void run(Project.NameKey project) throws IOException {
      stdout.println(admin.warm(project) + " refs");
    }
  }

  /** {@code refdb delete-broken PROJECT REF}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "delete-broken", description = "Deletes a ref whose file is no good")
  static final class DeleteBroken extends OnProject {
    @Argument(index = 1, required = true, metaVar = "REF", usage = "the ref's full name")
    private String ref;

    @Override
    void run(Project.NameKey project) throws UnloggedFailure, IOException {
      if (!admin.deleteBroken(project, ref)) {
        throw die(ref + " is not broken in project " + project);
      }
      stdout.println("deleted " + ref);
    }
  }

  /** {@code refdb shadow PROJECT (--on | --off)}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "shadow", description = "Lets JGit answer for a project and compares refdb with it")
  static final class Shadow extends OnProject {
    @Option(name = "--on", usage = "JGit answers, refdb is compared")
    private boolean on;

    @Option(name = "--off", usage = "refdb answers again")
    private boolean off;

    @Override
    void run(Project.NameKey project) throws UnloggedFailure {
      if (on == off) {
        throw die("say --on or --off");
      }
      admin.shadow(project, on);
      stdout.println(admin.stat(project).text());
    }
  }
}
