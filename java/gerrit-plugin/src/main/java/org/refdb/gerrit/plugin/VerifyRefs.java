package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.common.Input;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import java.util.List;
import org.refdb.gerrit.refs.RefdbAdmin;
import org.refdb.gerrit.refs.Verified;

/** Compares what refdb holds of a project with the disk. */
final class VerifyRefs {
  /**
   * Result of a comparison.
   *
   * @param clean whether there are no differences; a project with broken refs can be clean
   * @param differences where refdb is wrong, a line each
   * @param broken refs whose files are corrupt or cannot be read, a line each
   */
  record Result(boolean clean, List<String> differences, List<String> broken) {}

  private final RefdbAdmin admin;

  @Inject
  VerifyRefs(RefdbAdmin admin) {
    this.admin = admin;
  }

  private Result run(Project.NameKey project) throws IOException {
    Verified found = admin.verify(project);
    return new Result(found.differences().isEmpty(), found.differences(), found.broken());
  }

  /** {@code refdb verify PROJECT}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "verify", description = "Compares what refdb has of a project with the disk")
  static final class Command extends ProjectCommand {
    @Inject private VerifyRefs operation;

    @Override
    void execute(Project.NameKey project) throws UnloggedFailure, IOException {
      Result result = operation.run(project);
      result.broken().forEach(stdout::println);
      result.differences().forEach(stdout::println);
      if (!result.clean()) {
        throw die(result.differences().size() + " refs differ in project " + project);
      }
      stdout.println("clean");
    }
  }

  /** {@code POST /projects/NAME/refdb~verify}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint extends ProjectEndpoint<Input, Result> {
    @Inject private VerifyRefs operation;

    @Override
    Result execute(Project.NameKey project, Input input) throws IOException {
      return operation.run(project);
    }
  }
}
