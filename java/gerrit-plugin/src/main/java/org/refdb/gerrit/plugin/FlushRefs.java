package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.common.Input;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import org.refdb.gerrit.refs.ProjectStat;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Drops what refdb holds of a project in memory; its next user reads it anew. */
final class FlushRefs {
  private final RefdbAdmin admin;

  @Inject
  FlushRefs(RefdbAdmin admin) {
    this.admin = admin;
  }

  private ProjectStat run(Project.NameKey project) {
    admin.flush(project);
    return admin.stat(project);
  }

  /** {@code refdb flush PROJECT}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.FLUSH_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  @CommandMetaData(name = "flush", description = "Drops what refdb holds of a project")
  static final class Command extends ProjectCommand {
    @Inject private FlushRefs operation;

    @Override
    void execute(Project.NameKey project) {
      operation.run(project);
    }
  }

  /** {@code POST /projects/NAME/refdb~flush}. */
  @RequiresAnyCapability(
      value = {GlobalCapability.FLUSH_CACHES, GlobalCapability.MAINTAIN_SERVER},
      scope = CapabilityScope.CORE)
  static final class Endpoint extends ProjectEndpoint<Input, ProjectStat> {
    @Inject private FlushRefs operation;

    @Override
    ProjectStat execute(Project.NameKey project, Input input) {
      return operation.run(project);
    }
  }
}
