package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;
import com.google.gerrit.extensions.restapi.BadRequestException;
import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.sshd.CommandMetaData;
import com.google.inject.Inject;
import java.io.IOException;
import org.kohsuke.args4j.Argument;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Deletes a ref whose file is corrupt or cannot be read, and no other. */
final class DeleteBrokenRef {
  private final RefdbAdmin admin;

  @Inject
  DeleteBrokenRef(RefdbAdmin admin) {
    this.admin = admin;
  }

  private String run(Project.NameKey project, String ref) throws IOException, ResourceConflictException {
    if (!admin.deleteBroken(project, ref)) {
      throw new ResourceConflictException(ref + " is not broken in project " + project);
    }
    return "deleted " + ref;
  }

  /** {@code refdb delete-broken PROJECT REF}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  @CommandMetaData(name = "delete-broken", description = "Deletes a ref whose file is corrupt or unreadable")
  static final class Command extends ProjectCommand {
    @Inject private DeleteBrokenRef operation;

    @Argument(index = 1, required = true, metaVar = "REF", usage = "the ref's full name")
    private String ref;

    @Override
    void execute(Project.NameKey project) throws IOException, ResourceConflictException {
      stdout.println(operation.run(project, ref));
    }
  }

  /** Input of the REST endpoint. */
  static final class RefInput {
    String ref;
  }

  /** {@code POST /projects/NAME/refdb~delete-broken}. */
  @RequiresAnyCapability(value = GlobalCapability.MAINTAIN_SERVER, scope = CapabilityScope.CORE)
  static final class Endpoint extends ProjectEndpoint<RefInput, String> {
    @Inject private DeleteBrokenRef operation;

    @Override
    String execute(Project.NameKey project, RefInput input) throws IOException, RestApiException {
      if (input == null || input.ref == null) {
        throw new BadRequestException("say {\"ref\": \"refs/...\"}");
      }
      return operation.run(project, input.ref);
    }
  }
}
