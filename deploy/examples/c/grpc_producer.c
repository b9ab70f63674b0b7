/* Submits jobs to a Harbinger with the linked broker: grpc_producer HOST:PORT JOB-TYPE PAYLOAD...
 * Prints the id of each. */
#include <harbinger/client.h>

#include <err.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        errx(2, "usage: grpc_producer HOST:PORT JOB-TYPE PAYLOAD...");
    struct hb_client_options options = {.address = argv[1]};
    struct hb_header header = {"job_type",
                               argv[2]}; /* what kind of job: durations are learned by it */
    struct hb_rpc_error error;
    struct hb_producer *producer = hb_producer_new(&options);
    if (producer == NULL)
        errx(1, "out of memory");
    for (int i = 3; i < argc; i++) {
        struct hb_outgoing job = {argv[i], strlen(argv[i]), &header, 1, HB_RPC_NO_TTL};
        char id[HB_RPC_ID_MAX];
        if (hb_producer_submit(producer, &job, id, &error) != HB_RPC_OK)
            errx(1, "%s", error.text); /* after a lost answer it may be there all the same */
        puts(id);
    }
    hb_producer_free(producer);
}
