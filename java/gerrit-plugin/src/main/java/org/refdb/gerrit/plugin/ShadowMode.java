package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import org.kohsuke.args4j.Option;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;

/**
 * Turns shadow mode of a project on or off: JGit answers, and refdb is compared with it. Native mode has no shadow
 * mode.
 */
final class ShadowMode {
  private final RefdbAdmin admin;

  @Inject
  ShadowMode(RefdbAdmin admin) {
    this.admin = admin;
  }

  private ProjectStat run(Project.NameKey project, boolean isOn) {
    admin.shadow(project, isOn);
    return admin.stat(project);
  }

  /** {@code refdb shadow PROJECT (--on | --off)}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "shadow", description = "Lets JGit answer for a project and compares refdb with it")
  static final class Command extends ProjectCommand {
    @Inject private ShadowMode operation;

    @Option(name = "--on", usage = "JGit answers, refdb is compared")
    private boolean on;

    @Option(name = "--off", usage = "refdb answers again")
    private boolean off;

    @Override
    void execute(Project.NameKey project) throws UnloggedFailure {
      if (on == off) {
        throw die("say --on or --off");
      }
      stdout.println(operation.run(project, on).text());
    }
  }

  /** Input of the REST endpoint. */
  static final class ShadowInput {
    Boolean on;
  }

  /** {@code PUT /projects/NAME/refdb~shadow}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint extends ProjectEndpoint<ShadowInput, ProjectStat> {
    @Inject private ShadowMode operation;

    @Override
    ProjectStat execute(Project.NameKey project, ShadowInput input) throws BadRequestException {
      if (input == null || input.on == null) {
        throw new BadRequestException("say {\"on\": true} or {\"on\": false}");
      }
      return operation.run(project, input.on);
    }
  }
}
