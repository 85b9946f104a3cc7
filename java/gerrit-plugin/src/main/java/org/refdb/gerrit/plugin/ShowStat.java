package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestReadView;
import com.google.gerrit.server.config.ConfigResource;
import com.google.gerrit.server.project.ProjectResource;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.util.List;
import org.kohsuke.args4j.Argument;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Figures of one project, or of all that were used since the start and that the caller may see. */
final class ShowStat {
  private final RefdbAdmin admin;
  private final Visible visible;

  @Inject
  ShowStat(RefdbAdmin admin, Visible visible) {
    this.admin = admin;
    this.visible = visible;
  }

  private List<ProjectStat> all() {
    return visible.of(admin.stats());
  }

  /** {@code refdb stat [PROJECT]}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "stat", description = "Figures of one project, or of all that were used")
  static final class Command extends SshCommand {
    @Inject private ShowStat operation;

    @Argument(index = 0, metaVar = "PROJECT", usage = "the project's name; all projects without it")
    private String name;

    @Override
    protected void run() throws UnloggedFailure {
      if (name != null && !operation.visible.has(Project.nameKey(name))) {
        throw die("there is no project " + name);
      }
      RefdbAdmin admin = operation.admin;
      stdout.println("refdb " + admin.version() + (admin.isEngineLoaded() ? "" : ": NOT IN USE, see error_log"));
      for (ProjectStat stat : name == null ? operation.all() : List.of(admin.stat(Project.nameKey(name)))) {
        stdout.println(stat.text());
      }
    }
  }

  /** {@code GET /config/server/refdb~stat}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class AllEndpoint implements RestReadView<ConfigResource> {
    private final ShowStat operation;

    @Inject
    AllEndpoint(ShowStat operation) {
      this.operation = operation;
    }

    @Override
    public Response<List<ProjectStat>> apply(ConfigResource resource) {
      return Response.ok(operation.all());
    }
  }

  /** {@code GET /projects/NAME/refdb~stat}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class Endpoint implements RestReadView<ProjectResource> {
    private final ShowStat operation;

    @Inject
    Endpoint(ShowStat operation) {
      this.operation = operation;
    }

    @Override
    public Response<ProjectStat> apply(ProjectResource project) {
      return Response.ok(operation.admin.stat(project.getNameKey()));
    }
  }
}
