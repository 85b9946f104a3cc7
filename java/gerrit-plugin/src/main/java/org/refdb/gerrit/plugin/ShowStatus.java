package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.util.List;
import org.refdb.engine.ServerNote;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Reports whether the halves of refdb (refs, caches) that gerrit.config names are in use. */
final class ShowStatus {
  private ShowStatus() {}

  /** {@code refdb status}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(
      name = "status",
      description = "Whether refdb is in use; fails where it is configured and not in use")
  static final class Command extends SshCommand {
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
        printWhereGitPacks();
      }
      report.warnings().forEach(warning -> stdout.println("warning: " + warning));
      if (!report.good()) {
        throw die("refdb is configured and not in use");
      }
    }

    private void printWhereGitPacks() {
      List<ProjectStat> packing =
          visible.of(admin.stats()).stream()
              .filter(stat -> stat.engine() != null && stat.engine().gitPacks() > 0)
              .toList();
      if (!packing.isEmpty()) {
        ProjectStat first = packing.getFirst();
        stdout.println(
            "small batches go to packed-refs in "
                + packing.size()
                + " projects, since git may pack refs there by itself: "
                + first.engine().settingsOfGit()
                + " in "
                + first.project());
      }
    }
  }

  /**
   * {@code GET /config/server/refdb~status}: 500 if refdb is configured and not in use, for monitors that look at the
   * code only.
   */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class Endpoint implements RestReadView<ConfigResource> {
    private final Health health;

    @Inject
    Endpoint(Health health) {
      this.health = health;
    }

    @Override
    public Response<Health.Report> apply(ConfigResource resource) {
      Health.Report report = health.report();
      return report.good() ? Response.ok(report) : Response.withStatusCode(500, report);
    }
  }
}
