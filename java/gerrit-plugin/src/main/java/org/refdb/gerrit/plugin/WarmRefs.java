package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.common.Input;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Reads all refs of a project into memory. */
final class WarmRefs {
  /** The number of refs of the project. */
  record Result(int refs) {}

  private final RefdbAdmin admin;

  @Inject
  WarmRefs(RefdbAdmin admin) {
    this.admin = admin;
  }

  private Result run(Project.NameKey project) throws IOException {
    return new Result(admin.warm(project));
  }

  /** {@code refdb warm PROJECT}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "warm", description = "Reads all refs of a project into memory")
  static final class Command extends ProjectCommand {
    @Inject private WarmRefs operation;

    @Override
    void execute(Project.NameKey project) throws IOException {
      stdout.println(operation.run(project).refs() + " refs");
    }
  }

  /** {@code POST /projects/NAME/refdb~warm}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint extends ProjectEndpoint<Input, Result> {
    @Inject private WarmRefs operation;

    @Override
    Result execute(Project.NameKey project, Input input) throws IOException {
      return operation.run(project);
    }
  }
}
